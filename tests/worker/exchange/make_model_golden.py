#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/models: tiny models in the formats of the field, with the logits of transformers for them.

Three configurations of GPT-2 and three of Llama as Hugging Face folders, and two llm.c files. In each folder golden.json has
"open" (the model's name, relative to tests/golden/models, as OpenModel takes it), "input_ids" (sequences of equal length),
"logits_shape" [sequences, positions, vocab_size] and "greedy" (what greedy decoding adds to the first four tokens of the
first sequence); logits.f32 has the logits, row-major, little-endian float32, computed in float32 from the stored weights
after they were loaded back from the folder. Weights are drawn from a seeded generator, large enough that every tensor
moves the logits. Made with Python 3.11, torch 2.15.0 (on the CPU), transformers 5.23.0, safetensors 0.8.0 and numpy 2.4.6:

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch transformers safetensors numpy
    /tmp/torch/bin/python tests/worker/exchange/make_model_golden.py
"""

import json
import pathlib
import shutil

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[3] / "golden" / "models"
POSITIONS, PROMPT, GREEDY = 20, 4, 8
# Keys of config.json as older releases of transformers wrote them.
OLD_LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "bos_token_id": 1,
             "eos_token_id": 2, "initializer_range": 0.02, "pretraining_tp": 1, "use_cache": True}


def draw(model, generator):
    """Norms around 1, biases around 0, matrices and embeddings large."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:
                around = 1.0 if name.endswith("weight") else 0.0
                parameter.copy_(around + 0.2 * values)
            else:
                parameter.copy_(values * (0.3 if "wte" in name or "embed" in name else 0.15))
    return model.eval()


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def write_golden(folder, opened, model, generator):
    """Logits of `model`, which must hold the stored weights widened to float32."""
    config = model.config
    tokens = torch.randint(config.vocab_size, (2, min(POSITIONS, config.max_position_embeddings)), generator=generator)
    with torch.no_grad():
        logits = model(tokens).logits.float().contiguous()
        decoded = tokens[:1, :PROMPT]
        for _ in range(GREEDY):
            decoded = torch.cat([decoded, model(decoded).logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    logits.numpy().astype("<f4").tofile(folder / "logits.f32")
    golden = {"open": opened, "input_ids": tokens.tolist(), "logits_shape": list(logits.shape),
              "greedy": decoded[0, PROMPT:].tolist(), "torch": torch.__version__.split("+")[0],
              "transformers": transformers.__version__}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in golden.items())
    (folder / "golden.json").write_text("{\n" + lines + "\n}\n")
    for path in folder.iterdir():
        path.chmod(0o644)


def finish_folder(folder, generator):
    for extra in folder.glob("generation_config.json"):
        extra.unlink()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    write_golden(folder, f"hf:{folder.name}", model.eval(), generator)
    return model


def new_folder(name):
    folder = ROOT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def gpt2(seed, **config):
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(bos_token_id=0, eos_token_id=0, **config))
    return draw(model, torch.Generator().manual_seed(seed))


def llama(seed, **config):
    return draw(transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)), torch.Generator().manual_seed(seed))


def gpt2_prefixed():
    """As GPT2LMHeadModel saves itself: transformer.h.N."""
    folder = new_folder("gpt2_prefixed")
    model = gpt2(1, vocab_size=131, n_positions=32, n_embd=40, n_layer=2, n_head=4)
    model.save_pretrained(folder)
    return finish_folder(folder, torch.Generator().manual_seed(11))


def gpt2_bare():
    """As the first model of the hub: no prefix, with the masks of attention; an inner width of its own."""
    folder = new_folder("gpt2_bare")
    model = gpt2(2, vocab_size=97, n_positions=16, n_embd=32, n_layer=2, n_head=2, n_inner=80)
    tensors = {name.removeprefix("transformer."): value for name, value in model.state_dict().items()
               if name != "lm_head.weight"}
    for layer in range(2):
        tensors[f"h.{layer}.attn.bias"] = torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16)
        tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    write_json(folder / "config.json", {
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 0,
        "embd_pdrop": 0.1, "eos_token_id": 0, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
        "model_type": "gpt2", "n_ctx": 16, "n_embd": 32, "n_head": 2, "n_inner": 80, "n_layer": 2, "n_positions": 16,
        "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
        "summary_type": "cls_index", "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "vocab_size": 97})
    finish_folder(folder, torch.Generator().manual_seed(12))


def gpt2_sharded():
    """Several files with an index, half precision, a small epsilon for the norms that matters."""
    folder = new_folder("gpt2_sharded")
    model = gpt2(3, vocab_size=300, n_positions=24, n_embd=32, n_layer=2, n_head=4, layer_norm_epsilon=0.01)
    model.half().save_pretrained(folder, max_shard_size="30KB")
    finish_folder(folder, torch.Generator().manual_seed(13))


def llama2():
    folder = new_folder("llama2")
    shape = dict(vocab_size=97, hidden_size=32, intermediate_size=88, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=4, max_position_embeddings=64, rms_norm_eps=1e-5)
    llama(4, **shape).save_pretrained(folder)
    write_json(folder / "config.json", OLD_LLAMA | shape | {
        "rope_scaling": None, "tie_word_embeddings": False, "torch_dtype": "float32", "transformers_version": "4.31.0"})
    finish_folder(folder, torch.Generator().manual_seed(14))


def llama3():
    """Grouped queries and scaled rotation, whose three ranges of wavelengths all occur; bf16, several files."""
    folder = new_folder("llama3")
    model = llama(5, vocab_size=257, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5, rope_parameters={
                      "rope_theta": 500000.0, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                      "high_freq_factor": 4.0, "original_max_position_embeddings": 64})
    model.bfloat16().save_pretrained(folder, max_shard_size="40KB")
    finish_folder(folder, torch.Generator().manual_seed(15))


def llama_tied():
    """The head is the embedding; positions divided by two, written as before transformers 4.43."""
    folder = new_folder("llama_tied")
    shape = dict(vocab_size=300, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=6,
                 num_key_value_heads=3, max_position_embeddings=48, rms_norm_eps=1e-6, tie_word_embeddings=True)
    llama(6, **shape).save_pretrained(folder)
    write_json(folder / "config.json", OLD_LLAMA | shape | {
        "rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 10000.0, "torch_dtype": "float32",
        "transformers_version": "4.40.0"})
    finish_folder(folder, torch.Generator().manual_seed(16))


def write_llmc(path, model, version):
    """As llm.c's train_gpt2.py writes models: 256 numbers, then each tensor of all layers before the next."""
    config, state = model.config, model.state_dict()
    padded = (config.vocab_size + 127) // 128 * 128
    header = np.zeros(256, "<i4")
    header[:8] = [20240326, version, config.n_positions, config.vocab_size, config.n_layer, config.n_head, config.n_embd,
                  padded]
    wte = torch.zeros(padded, config.n_embd)
    wte[:config.vocab_size] = state["transformer.wte.weight"]
    tensors = [wte, state["transformer.wpe.weight"]]
    for name in ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"):
        for kind in ("weight", "bias"):
            for layer in range(config.n_layer):
                value = state[f"transformer.h.{layer}.{name}.{kind}"]
                tensors.append(value.t() if value.dim() == 2 else value)
    tensors += [state["transformer.ln_f.weight"], state["transformer.ln_f.bias"]]
    with open(path, "wb") as file:
        file.write(header.tobytes())
        for tensor in tensors:
            if version == 5:
                file.write(tensor.contiguous().bfloat16().view(torch.int16).numpy().astype("<i2").tobytes())
            else:
                file.write(tensor.contiguous().numpy().astype("<f4").tobytes())


def llmc(model):
    """The model of gpt2_prefixed, in f32 and rounded to bf16."""
    for version, name in ((3, "llmc_f32"), (5, "llmc_bf16")):
        folder = new_folder(name)
        write_llmc(folder / "model.bin", model, version)
        if version == 5:
            model = model.bfloat16().float()
        write_golden(folder, f"llmc:{name}/model.bin", model, torch.Generator().manual_seed(11))


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    llmc(gpt2_prefixed())
    gpt2_bare()
    gpt2_sharded()
    llama2()
    llama3()
    llama_tied()
    total = sum(path.stat().st_size for path in ROOT.rglob("*") if path.is_file())
    print(f"{total} bytes in {ROOT}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/tokenizer: two small byte-level BPE tokenizers as `tokenizers` saves them, of the kinds of
GPT-2 and Llama 3, and texts with the tokens that `tokenizers` gives them.

    pip install tokenizers; make_tokenizer_golden.py FOLDER
"""
import json
import random
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
WORDS = ("the step of a schedule hides what is exposed; training trains trainers' trained weights. "
         "Die Kunst der Fuge: überlappend, größer, schöner. L'été où naît la mélodie. "
         "Ἀριθμός и музыка, 対位法 と 音楽, 音樂, संगीत, 🎻🎼. 1234567890 3.14159 2^60 0x1f "
         "if (x != y) { return a[i] += b; }\n\tfor i in range(10):\n\t\tprint(i)\n\n\n")


def corpus():
    draw = random.Random(1)
    words = WORDS.split(" ")
    for _ in range(3000):
        yield " ".join(draw.choice(words) for _ in range(12))


def gpt2_kind():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def llama3_kind():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=480, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens([AddedToken(f"<|{name}|>", special=True, normalized=False)
                                  for name in ("begin_of_text", "end_of_text", "end", "end_of_text|><|x")])
    return tokenizer


def texts():
    draw = random.Random(2)
    yield from ["", " ", "\n", "a", "  leading", "trailing  ", "a  b   c\n\n  d\r\n\te", "it's I'LL we've 'tis", "12345678",
                "naïve café", "対位法と音楽", "🎻🎼 x", "don't\u00a0stop\u2003now\u3000!", "\u0085\u1680 q", "<|endoftext|>",
                "x<|end_of_text|>y <|end|><|begin_of_text|>", "<|end_of_text|><|x|>", "<|end_of", "!!!\n\n???\n",
                "\t\tprint(i)\n\n\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "traintraintrain", "\u0301e\u0301", "\x00\x01\x7f"]
    alphabet = WORDS + "''  \n\r\t\u00a0<|>éß𝔘½²Ⅳ٣"
    for length in (5, 17, 60, 200, 900):
        for _ in range(6):
            yield "".join(draw.choice(alphabet) for _ in range(length))


def main():
    folder = sys.argv[1]
    cases = []
    built = {"gpt2_kind": gpt2_kind(), "llama3_kind": llama3_kind()}
    for name, tokenizer in built.items():
        tokenizer.save(f"{folder}/{name}.json", pretty=False)
    for text in texts():
        cases.append({"text": text} | {name: tokenizer.encode(text, add_special_tokens=False).ids
                                       for name, tokenizer in built.items()})
    with open(f"{folder}/cases.json", "w", encoding="utf-8") as file:
        file.write(f'{{"made_by": "tokenizers {tokenizers.__version__}", "cases": [\n')
        file.write(",\n".join(json.dumps(case, ensure_ascii=True) for case in cases))
        file.write("\n]}\n")


if __name__ == "__main__":
    main()

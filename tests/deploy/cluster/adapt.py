# SPDX-License-Identifier: Apache-2.0
"""Manifests as an older API server takes them. What may be changed is listed here by name, and it
is changed only where the server lacks it. kubectl refuses anything else that the server does not
know."""

import pathlib
import re

import yaml

# {(API, kind): the API in which older servers have the kind}
OLDER_APIS = {("policy/v1", "PodDisruptionBudget"): "policy/v1beta1"}
# {kind: fields of spec that older servers do not know}
LATER_FIELDS = {"PodDisruptionBudget": ["unhealthyPodEvictionPolicy"]}


class Server:
    """What an API server has."""

    def __init__(self, api):
        self._api = api
        self.version = api.get("/version")["gitVersion"]
        self._schemas = api.get("/openapi/v2")["definitions"]

    def has(self, api_version, kind):
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        return self._api.has(path) and any(
            one["kind"] == kind for one in self._api.get(path)["resources"])

    def has_field(self, api_version, kind, field):
        """Of spec."""
        group, _, version = api_version.rpartition("/")
        wanted = {"group": group, "version": version, "kind": kind}
        schema = next(one for one in self._schemas.values()
                      if wanted in one.get("x-kubernetes-group-version-kind", []))
        name = schema["properties"]["spec"]["$ref"].removeprefix("#/definitions/")
        return field in self._schemas[name]["properties"]


def adapted(server, path):
    """(text, changes): the manifest for `server`, and a sentence for each change. An object without
    a change keeps its text."""
    documents, changes = [], []
    for text in re.split(r"^---\n", pathlib.Path(path).read_text(), flags=re.M):
        one = yaml.safe_load(text)
        if one is None:
            continue
        kind, name, found = one["kind"], one["metadata"]["name"], []
        older = OLDER_APIS.get((one["apiVersion"], kind))
        if older and not server.has(one["apiVersion"], kind):
            found.append(f"{kind} {name} is of {older} in place of {one['apiVersion']}")
            one["apiVersion"] = older
        for field in LATER_FIELDS.get(kind, []):
            if field in one["spec"] and not server.has_field(one["apiVersion"], kind, field):
                found.append(f"{kind} {name} is without spec.{field}")
                del one["spec"][field]
        documents.append(yaml.safe_dump(one) if found else text)
        changes += found
    return "---\n".join(documents), changes

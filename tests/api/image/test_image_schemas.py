# SPDX-License-Identifier: Apache-2.0
"""The schemas of the image API."""

import jsonschema


def test_schema_document_is_valid(sqlite_app):
    for name in ["image", "images"]:
        schema = sqlite_app.get(f"/image/v2/schemas/{name}").json
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["name"] == name, name
        assert schema["properties"], name


def test_answers_match_their_schemas(api):
    uuid = api.make("image", {"a.b": "c", "tags": ["t"], "kernel_id": None})
    jsonschema.validate(api.show(uuid).json, api.app.get("/image/v2/schemas/image").json)
    jsonschema.validate(api.list().json, api.app.get("/image/v2/schemas/images").json)


def test_read_only_attributes_cannot_be_set(sqlite_api):
    schema = sqlite_api.app.get("/image/v2/schemas/image").json
    for name, attribute in schema["properties"].items():
        if attribute.get("readOnly"):
            kind = attribute["type"]
            value = 1 if "integer" in kind else attribute.get("enum", ["x"])[0]
            sqlite_api.create({name: value}, status=403)

# SPDX-License-Identifier: Apache-2.0
"""The schemas of the image API."""

import jsonschema


def test_image_schema_document_is_valid(sqlite_app):
    for name in ["image", "images"]:
        schema = sqlite_app.get(f"/image/v2/schemas/{name}").json
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["name"] == name, name
        assert schema["properties"], name


def test_image_and_image_list_match_their_published_schemas(image_api):
    uuid = image_api.create_and_get_uuid("image", {"a.b": "c", "tags": ["t"], "kernel_id": None})
    jsonschema.validate(
        image_api.show_image(uuid).json, image_api.app.get("/image/v2/schemas/image").json
    )
    jsonschema.validate(
        image_api.list_images().json, image_api.app.get("/image/v2/schemas/images").json
    )


def test_attributes_that_the_schema_marks_read_only_are_403_on_creation(sqlite_image_api):
    schema = sqlite_image_api.app.get("/image/v2/schemas/image").json
    for name, attribute in schema["properties"].items():
        if attribute.get("readOnly"):
            kind = attribute["type"]
            value = 1 if "integer" in kind else attribute.get("enum", ["x"])[0]
            sqlite_image_api.create_image({name: value}, status=403)

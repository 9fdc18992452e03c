//! Completes the OpenAPI document with everything that can be derived from the annotations.

use std::collections::BTreeMap;

use facescan_pipeline::{operations::process::step::Step, results::schemas::ENCODED_IMAGE};
use utoipa::{
    ToSchema,
    openapi::{
        ArrayBuilder, Content, ContentBuilder, ObjectBuilder, OpenApi, Ref, RefOr, Schema, Type,
        encoding::EncodingBuilder,
        link::LinkBuilder,
        path::{Operation, Parameter, ParameterIn},
        schema::{AdditionalProperties, Object, SchemaType},
        security::{
            ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
        },
    },
};

use super::{Bytes, bodies::BatchItemSource, failures, routes::operations};
use crate::http::route_scopes::{self, SCHEME};

/// The name of the scheme of `x-api-key`.
const HEADER: &str = "key_header";

/// The tag of the operations that answer with a scan.
const SCAN: &str = "scan";

/// The ids in the answer of a scan: the operation that takes the id, and its path in the answer.
const SCAN_LINKS: [(&str, &str); 2] = [
    ("read_image", "/results/0/image_id"),
    ("read_face", "/results/0/faces/0/face_id"),
];

/// The ids in other answers: the operation that returns the id, the operation that takes it, and its path in the answer.
const LINKS: [(&str, &str, &str); 3] = [
    ("list_images", "read_image", "/images/0/image_id"),
    ("read_image", "read_face", "/scans/0/faces/0/face_id"),
    ("read_face", "read_image", "/image_id"),
];

type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Returns the document with all forms of each body, with ranges for the options in the query, and with links from
/// answers to other operations.
pub fn complete(mut document: OpenApi) -> OpenApi {
    let Some(components) = &mut document.components else {
        return document;
    };
    components.responses.extend(failures::components());
    let schemas = &mut components.schemas;
    components.security_schemes.extend([
        (SCHEME.to_owned(), RefOr::T(bearer())),
        (HEADER.to_owned(), RefOr::T(header())),
    ]);
    while flatten(schemas) {}
    close(schemas, &<Step as ToSchema>::name());
    // Otherwise the schema would also accept an image with faces.
    close(schemas, ENCODED_IMAGE);
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            add_forms(operation, schemas);
            add_key_header(operation);
            add_links(operation);
        }
    }
    prune(document)
}

/// Returns the scheme of `authorization`.
fn bearer() -> SecurityScheme {
    let description = "A key of this server. Servers that need no key ignore it.";
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(description));
    SecurityScheme::Http(scheme.build())
}

/// Returns the scheme of `x-api-key`.
fn header() -> SecurityScheme {
    SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("x-api-key")))
}

/// Says that a key can also be sent in the header `x-api-key`.
fn add_key_header(operation: &mut Operation) {
    let scope = route_scopes::scope(operation);
    if let (Some(security), Some(scope)) = (&mut operation.security, scope) {
        security.push(SecurityRequirement::new(HEADER, [scope.name()]));
    }
}

/// Merges each schema that combines objects into one object, because generators handle that better. Returns whether it
/// merged one. Call it again in that case, because parts can be combined themselves.
fn flatten(schemas: &mut Schemas) -> bool {
    let parts = schemas.clone();
    let mut is_changed = false;
    for schema in schemas.values_mut() {
        let RefOr::T(Schema::AllOf(all)) = schema else {
            continue;
        };
        let objects: Option<Vec<&Object>> =
            all.items.iter().map(|part| object(&parts, part)).collect();
        let Some(objects) = objects else { continue };
        let mut merged = Object::new();
        merged.schema_type = Type::Object.into();
        merged.description = all.description.take();
        // The fields of the entry come before the fields of its result.
        for part in objects.into_iter().rev() {
            merged.properties.extend(part.properties.clone());
            merged.required.extend(part.required.clone());
        }
        *schema = RefOr::T(Schema::Object(merged));
        is_changed = true;
    }
    is_changed
}

/// Removes the schemas that nothing refers to. They were parts of merged schemas.
fn prune(mut document: OpenApi) -> OpenApi {
    let text = serde_json::to_string(&document);
    if let (Ok(text), Some(components)) = (text, &mut document.components) {
        let is_used = |name: &str| text.contains(&format!("\"#/components/schemas/{name}\""));
        components.schemas.retain(|name, _| is_used(name));
    }
    document
}

/// Returns the object that a schema is or refers to.
fn object<'a>(schemas: &'a Schemas, schema: &'a RefOr<Schema>) -> Option<&'a Object> {
    match schema {
        RefOr::Ref(to) => object(schemas, schemas.get(name_of(to))?),
        RefOr::T(Schema::Object(object)) => Some(object),
        RefOr::T(_) => None,
    }
}

/// Returns the name of the component that a reference points to.
fn name_of(to: &Ref) -> &str {
    to.ref_location.rsplit('/').next().unwrap_or_default()
}

/// Forbids other properties in an object, or in each object of a choice.
fn close(schemas: &mut Schemas, name: &str) {
    let objects = match schemas.get_mut(name) {
        Some(RefOr::T(Schema::OneOf(choice))) => choice.items.as_mut_slice(),
        Some(object) => std::slice::from_mut(object),
        None => return,
    };
    for object in objects {
        if let RefOr::T(Schema::Object(object)) = object {
            object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        }
    }
}

/// Adds the msgpack, multipart and raw forms of a JSON body, and the options of the body to the query.
fn add_forms(operation: &mut Operation, schemas: &mut Schemas) {
    let Some(RefOr::T(body)) = &mut operation.request_body else {
        return;
    };
    let json = body.content.get("application/json");
    let Some(json) = json.and_then(|content| match content {
        RefOr::T(content) => Some(content.clone()),
        RefOr::Ref(_) => None,
    }) else {
        return;
    };
    let Some(RefOr::Ref(to)) = &json.schema else {
        return;
    };
    let Some(described) = object(schemas, &RefOr::Ref(to.clone())).cloned() else {
        return;
    };
    let options = described.properties.get("options").map(without_null);
    if let (Some(options), Some(parameters)) = (&options, &mut operation.parameters)
        && let Some(options) = object(schemas, options)
    {
        constrain(parameters, options);
    }
    let is_batch = described.properties.contains_key("items");
    if !is_batch && !described.properties.contains_key("images") {
        return;
    }
    let form = name_of(to).replace("Body", "Form");
    let bytes: Content = Content::new(Some(Ref::from_schema_name(Bytes::name())));
    for raw in ["image/*", "application/octet-stream"] {
        body.content.insert(raw.to_owned(), RefOr::T(bytes.clone()));
    }
    body.content
        .insert("application/msgpack".to_owned(), RefOr::T(json));
    if is_batch {
        // The first line is the body without its items. A schema describes one line only.
        let line = Content::new(Some(Ref::from_schema_name(BatchItemSource::name())));
        body.content
            .insert("application/x-ndjson".to_owned(), RefOr::T(line));
    }
    let multipart = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(form.as_str())))
        .encoding("image", part("image/*"))
        .encoding("options", part("application/json"));
    let has_masks = described.properties.contains_key("masks");
    let multipart = if has_masks {
        multipart.encoding("mask", part("image/*"))
    } else {
        multipart
    };
    body.content.insert(
        "multipart/form-data".to_owned(),
        RefOr::T(multipart.build()),
    );
    let mut form_schema = multipart_form(options, &described, has_masks);
    if is_batch {
        let others = described.properties.iter();
        let others = others.filter(|(name, _)| !["items", "options"].contains(&name.as_str()));
        form_schema
            .properties
            .extend(others.map(|(name, schema)| (name.clone(), without_null(schema))));
    }
    schemas.insert(form, RefOr::T(Schema::Object(form_schema)));
}

fn part(media_type: &str) -> EncodingBuilder {
    EncodingBuilder::new().content_type(Some(media_type))
}

/// Returns the schema of a multipart form with the content of a JSON body.
fn multipart_form(options: Option<RefOr<Schema>>, body: &Object, has_masks: bool) -> Object {
    let files = || {
        let file = Ref::from_schema_name(Bytes::name());
        ArrayBuilder::new().items(file).min_items(Some(1))
    };
    let mut form = ObjectBuilder::new()
        .description(Some(
            "The parts of a form. An option can also be a separate part with the name that it has in the query.",
        ))
        .property(
            "image",
            files().description(Some("One part for each image. Its filename is the id.")),
        )
        .required("image");
    if has_masks {
        form = form.property(
            "mask",
            files().description(Some("One part for each mask of the images.")),
        );
    }
    if let Some(options) = options {
        form = form.property("options", options);
        if body.required.iter().any(|name| name == "options") {
            form = form.required("options");
        }
    }
    form.additional_properties(Some(AdditionalProperties::FreeForm(false)))
        .build()
}

/// Gives the options in the query the ranges of the body. Lists are text in a query, so they do not change.
fn constrain(parameters: &mut [RefOr<Parameter>], options: &Object) {
    for parameter in parameters {
        let RefOr::T(parameter) = parameter else {
            continue;
        };
        let property = options.properties.get(&parameter.name).map(without_null);
        match property {
            None | Some(RefOr::T(Schema::Array(_))) => {}
            Some(_) if parameter.parameter_in != ParameterIn::Query => {}
            Some(RefOr::Ref(mut to)) => {
                to.description.clear();
                parameter.schema = Some(RefOr::Ref(to));
            }
            property => parameter.schema = property,
        }
    }
}

/// Returns a schema without `null`, which a query and a form cannot express.
fn without_null(schema: &RefOr<Schema>) -> RefOr<Schema> {
    let is_null = |schema: &RefOr<Schema>| matches!(schema, RefOr::T(Schema::Object(object)) if object.schema_type == SchemaType::Type(Type::Null));
    let mut schema = schema.clone();
    let kind = match &mut schema {
        RefOr::T(Schema::OneOf(choice)) => {
            choice.items.retain(|item| !is_null(item));
            return match choice.items.as_slice() {
                [only] => only.clone(),
                _ => schema,
            };
        }
        RefOr::T(Schema::Object(object)) => {
            object.description = None;
            if let Some(values) = &mut object.enum_values {
                values.retain(|value| !value.is_null());
            }
            &mut object.schema_type
        }
        RefOr::T(Schema::Array(array)) => &mut array.schema_type,
        _ => return schema,
    };
    if let SchemaType::Array(types) = kind {
        types.retain(|kind| *kind != Type::Null);
        if let [only] = types.as_slice() {
            *kind = SchemaType::Type(only.clone());
        }
    }
    schema
}

/// Links the answer of an operation to the operations that take its ids.
fn add_links(operation: &mut Operation) {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    let tags = operation.tags.as_deref().unwrap_or_default();
    let is_scan = tags.iter().any(|tag| tag == SCAN);
    let of_scan = SCAN_LINKS.iter().filter(|_| is_scan).copied();
    let others = LINKS.iter().filter(|(from, _, _)| *from == id);
    let links = of_scan.chain(others.map(|(_, to, place)| (*to, *place)));
    let Some(RefOr::T(answer)) = operation.responses.responses.get_mut("200") else {
        return;
    };
    for (to, place) in links {
        let link = LinkBuilder::new()
            .operation_id(to)
            .parameter("id", format!("$response.body#{place}"))
            .build();
        answer.links.insert(to.to_owned(), RefOr::T(link));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use facescan_pipeline::operation;

    fn document() -> serde_json::Value {
        serde_json::to_value(crate::http::openapi_document()).unwrap()
    }

    fn operations(document: &serde_json::Value) -> Vec<&serde_json::Value> {
        let items = document["paths"].as_object().unwrap().values();
        items
            .flat_map(|item| item.as_object().unwrap().values())
            .collect()
    }

    /// Everyone who reads `/docs` loads it.
    #[test]
    fn the_document_has_fewer_than_400_kilobytes() {
        let length = document().to_string().len();
        assert!(length < 400_000, "{length}");
    }

    #[test]
    fn every_reference_resolves_and_every_response_is_used() {
        let document = document();
        let text = document.to_string();
        for (at, start) in text.match_indices("\"$ref\":\"#") {
            let rest = &text[at + start.len()..];
            let pointer = rest.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
        let responses = document["components"]["responses"].as_object().unwrap();
        for name in responses.keys() {
            let reference = format!("\"#/components/responses/{name}\"");
            assert!(text.contains(&reference), "{name}");
        }
    }

    #[test]
    fn every_operation_has_the_errors_of_its_access() {
        let document = document();
        for operation in operations(&document) {
            let is_open = operation["security"] == serde_json::json!([{}]);
            let closed = ["401", "403", "429", "503"].iter().filter(|_| !is_open);
            for status in ["422", "500", "504"].iter().chain(closed) {
                let response = &operation["responses"][status];
                assert!(
                    response.is_object(),
                    "{}: {status}",
                    operation["operationId"]
                );
            }
        }
    }

    #[test]
    fn every_operation_has_a_route() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        for operation in operation::Operation::ALL {
            let end = format!("/{}", operation.name());
            let mut routes = paths.iter().filter(|(path, _)| path.ends_with(&end));
            assert!(routes.any(|(_, item)| item["post"].is_object()), "{end}");
        }
    }

    #[test]
    fn no_name_is_composed() {
        let document = document();
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            assert!(!name.contains('_'), "{name}");
            assert!(schema.get("allOf").is_none(), "{name}");
        }
    }

    #[test]
    fn closed_objects_forbid_other_properties() {
        let document = document();
        let schemas = &document["components"]["schemas"];
        let image = &schemas[ENCODED_IMAGE];
        assert_eq!(image["additionalProperties"], false);
        let steps = schemas[<Step as ToSchema>::name().as_ref()]["oneOf"]
            .as_array()
            .unwrap();
        let is_closed = |step: &serde_json::Value| step["additionalProperties"] == false;
        assert!(!steps.is_empty() && steps.iter().all(is_closed));
    }

    #[test]
    fn operation_ids_are_unique_and_links_point_to_operations() {
        let document = document();
        let operations = operations(&document);
        let ids: BTreeSet<&str> = operations
            .iter()
            .map(|operation| operation["operationId"].as_str().unwrap())
            .collect();
        assert_eq!(ids.len(), operations.len());
        for (from, to, _) in LINKS {
            assert!(ids.contains(from) && ids.contains(to), "{from} to {to}");
        }
        let is_scan = |operation: &&&serde_json::Value| operation["tags"][0] == SCAN;
        let scans = operations.iter().filter(is_scan).count();
        let links = document.to_string().matches("$response.body#").count();
        assert_eq!(links, scans * SCAN_LINKS.len() + LINKS.len());
    }

    #[test]
    fn images_come_in_every_form_and_options_have_the_ranges_of_the_body() {
        let document = document();
        for operation in operations(&document) {
            let Some(content) = operation.pointer("/requestBody/content") else {
                continue;
            };
            let mut forms: Vec<&String> = content.as_object().unwrap().keys().collect();
            let name = operation["operationId"].as_str();
            let without_images = [
                "assign_face",
                "change_collection",
                "change_subject",
                "create_clustering",
                "create_collection",
                "create_erasure",
                "create_key",
                "create_subject",
                "create_webhook",
                "merge_people",
                "rename_person",
                "split_person",
            ];
            if without_images.contains(&name.unwrap()) {
                assert_eq!(forms, ["application/json"], "it takes no images");
                continue;
            }
            if name == Some("verify_faces") {
                let expected = [
                    "application/json",
                    "application/msgpack",
                    "multipart/form-data",
                ];
                assert_eq!(forms, expected, "one image has no second face");
                continue;
            }
            if operation["tags"][0] == "batches" {
                forms.retain(|form| *form != "application/x-ndjson");
            }
            let expected = [
                "application/json",
                "application/msgpack",
                "application/octet-stream",
                "image/*",
                "multipart/form-data",
            ];
            assert_eq!(forms, expected);
        }
        let detect = &document["paths"]["/detect"]["post"];
        let size = detect["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .find(|parameter| parameter["name"] == "det_size")
            .unwrap();
        let side = &size["schema"]["oneOf"][0];
        assert_eq!(side["multipleOf"], 32);
        assert_eq!(side["type"], "integer");
    }
}

//! Completes the OpenAPI document with everything that can be derived from the annotations.

use std::collections::BTreeMap;

use facescan_pipeline::{
    operation::{self, ScanKind},
    operations::process::step::Step,
    results::schemas::ENCODED_IMAGE,
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ArrayBuilder, Content, ContentBuilder, ObjectBuilder, OneOfBuilder, OpenApi, Ref, RefOr,
        Schema, Type,
        encoding::EncodingBuilder,
        link::LinkBuilder,
        path::{Operation, Parameter, ParameterIn},
        schema::{AdditionalProperties, ArrayItems, Object, SchemaType},
        security::{
            ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
        },
    },
};

use super::{
    Bytes,
    bodies::{BatchItemSource, FacesForm},
    failures,
    routes::operations,
};
use crate::http::route_scopes::{self, SCHEME};

/// The name of the scheme of `x-api-key`.
const HEADER: &str = "key_header";

/// The tag of the operations that answer with a scan.
const SCAN: &str = "scan";

/// The ids in the response of a scan: the operation that takes the id, and its path in the response.
const SCAN_LINKS: [(&str, &str); 2] = [
    ("read_image", "/results/0/image_id"),
    ("read_face", "/results/0/faces/0/face_id"),
];

/// The ids in other responses: the operation that returns the id, the operation that takes it, and its path in the response.
const LINKS: [(&str, &str, &str); 3] = [
    ("list_images", "read_image", "/results/0/id"),
    ("read_image", "read_face", "/scans/0/faces/0/id"),
    ("read_face", "read_image", "/image_id"),
];

type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Returns the document with all forms of each body, with ranges for the options in the query, and with links from
/// responses to other operations.
pub fn complete(mut document: OpenApi) -> OpenApi {
    let Some(components) = &mut document.components else {
        return document;
    };
    components.responses.extend(failures::components());
    let schemas = &mut components.schemas;
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "A key of this server. Servers that need no key ignore it.",
        ));
    let header = ApiKey::Header(ApiKeyValue::new("x-api-key"));
    let schemes = [
        (SCHEME, SecurityScheme::Http(bearer.build())),
        (HEADER, SecurityScheme::ApiKey(header)),
    ];
    let schemes = schemes.map(|(name, scheme)| (name.to_owned(), RefOr::T(scheme)));
    components.security_schemes.extend(schemes);
    while flatten(schemas) {}
    close(schemas, &<Step as ToSchema>::name());
    // Otherwise the schema would also accept an image with faces.
    close(schemas, ENCODED_IMAGE);
    for (path, item) in &mut document.paths.paths {
        for operation in operations(item) {
            narrow(path, operation, schemas);
            add_forms(operation, schemas);
            add_scope(path, operation);
            add_key_header(operation);
            add_links(operation);
        }
    }
    prune(document)
}

/// Gives a route that names no scope the scope of its operation.
fn add_scope(path: &str, operation: &mut Operation) {
    let mut declared = operation::Operation::ALL.into_iter();
    let declared = declared.find(|declared| path.strip_prefix('/') == Some(declared.name()));
    if operation.security.is_none()
        && let Some(declared) = declared
    {
        let requirement = SecurityRequirement::new(SCHEME, [declared.scope().name()]);
        operation.security = Some(vec![requirement]);
    }
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

/// Gives a scan a body of its own, without the options that it does not take.
fn narrow(path: &str, operation: &mut Operation, schemas: &mut Schemas) {
    let mut scans = ScanKind::ALL.into_iter();
    let Some(kind) = scans.find(|kind| path.strip_prefix('/') == Some(kind.operation().name()))
    else {
        return;
    };
    let refused = kind.refused_options();
    if refused.is_empty() {
        return;
    }
    let is_taken = |name: &str| !refused.contains(&name);
    let name = kind.operation().name();
    let prefix = name[..1].to_ascii_uppercase() + &name[1..];
    let [options, body] = ["Options", "Body"].map(|part| format!("{prefix}{part}"));
    let of_scan = ["ScanOptions", "ScanBody"].map(Ref::from_schema_name);
    let [Some(mut taken), Some(mut whole)] =
        of_scan.map(|to| object(schemas, &RefOr::Ref(to)).cloned())
    else {
        return;
    };
    taken.properties.retain(|name, _| is_taken(name));
    let or_null = OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::Null))
        .item(Ref::from_schema_name(&options));
    let or_null = RefOr::T(Schema::OneOf(or_null.build()));
    whole.properties.insert("options".to_owned(), or_null);
    schemas.insert(options, RefOr::T(Schema::Object(taken)));
    schemas.insert(body.clone(), RefOr::T(Schema::Object(whole)));
    if let Some(RefOr::T(request)) = &mut operation.request_body
        && let Some(RefOr::T(json)) = request.content.get_mut("application/json")
    {
        json.schema = Some(RefOr::Ref(Ref::from_schema_name(&body)));
    }
    if let Some(parameters) = &mut operation.parameters {
        parameters.retain(|parameter| match parameter {
            RefOr::T(parameter) => is_taken(&parameter.name),
            RefOr::Ref(_) => true,
        });
    }
}

/// Adds the msgpack, multipart and raw forms of a JSON body, and the options of the body to the query.
fn add_forms(operation: &mut Operation, schemas: &mut Schemas) {
    let Some(RefOr::T(body)) = &mut operation.request_body else {
        return;
    };
    let Some(RefOr::T(json)) = body.content.get("application/json").cloned() else {
        return;
    };
    let Some(schema @ RefOr::Ref(to)) = &json.schema else {
        return;
    };
    let Some(described) = object(schemas, schema).cloned() else {
        return;
    };
    let options = described.properties.get("options").map(without_null);
    if let (Some(options), Some(parameters)) = (&options, &mut operation.parameters)
        && let Some(options) = object(schemas, options)
    {
        constrain(parameters, options);
    }
    let has = |name: &str| described.properties.contains_key(name);
    // Other bodies have the ids of stored faces, which are no images.
    let has_faces = matches!(
        described.properties.get("faces"),
        Some(RefOr::T(Schema::Array(faces))) if matches!(&faces.items,
            ArrayItems::RefOrSchema(face) if matches!(**face, RefOr::Ref(_)))
    );
    let is_batch = has("items");
    if !is_batch && !has_faces && !has("images") {
        return;
    }
    let form = name_of(to).replace("Body", "Form");
    let bytes: Content = Content::new(Some(Ref::from_schema_name(Bytes::name())));
    for raw in ["image/*", "application/octet-stream"] {
        body.content.insert(raw.to_owned(), RefOr::T(bytes.clone()));
    }
    body.content
        .insert("application/msgpack".to_owned(), RefOr::T(json));
    if has_faces {
        let form = Content::new(Some(Ref::from_schema_name(FacesForm::name())));
        body.content
            .insert("multipart/form-data".to_owned(), RefOr::T(form));
        schemas.insert(FacesForm::name().into_owned(), FacesForm::schema());
        return;
    }
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
    let has_masks = has("masks");
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
    let in_parts = ["images", "masks", "items", "options"];
    let others = described.properties.iter();
    let others = others.filter(|(name, _)| !in_parts.contains(&name.as_str()));
    form_schema
        .properties
        .extend(others.map(|(name, schema)| (name.clone(), without_null(schema))));
    schemas.insert(form, RefOr::T(Schema::Object(form_schema)));
}

fn part(media_type: &str) -> EncodingBuilder {
    EncodingBuilder::new().content_type(Some(media_type))
}

/// Returns the schema of a multipart form with the content of a JSON body.
fn multipart_form(options: Option<RefOr<Schema>>, body: &Object, has_masks: bool) -> Object {
    let files = || ArrayBuilder::new().items(Ref::from_schema_name(Bytes::name()));
    let mut form = ObjectBuilder::new()
        .description(Some(
            "The parts of a form. An option can also be a separate part with the name that it has in the query.",
        ))
        .property(
            "image",
            files()
                .min_items(Some(1))
                .description(Some("One part for each image. Its filename is the id.")),
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

/// Gives the options in the query the ranges of the body. Lists are JSON text in a query.
fn constrain(parameters: &mut [RefOr<Parameter>], options: &Object) {
    for parameter in parameters {
        let RefOr::T(parameter) = parameter else {
            continue;
        };
        let property = options.properties.get(&parameter.name).map(without_null);
        match property {
            None => {}
            Some(_) if parameter.parameter_in != ParameterIn::Query => {}
            Some(list @ RefOr::T(Schema::Array(_))) => {
                parameter.schema = None;
                let json = RefOr::T(Content::new(Some(list)));
                parameter
                    .content
                    .insert("application/json".to_owned(), json);
            }
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

/// Links the response of an operation to the operations that take its ids.
fn add_links(operation: &mut Operation) {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    let tags = operation.tags.as_deref().unwrap_or_default();
    let is_scan = tags.iter().any(|tag| tag == SCAN);
    let of_scan = SCAN_LINKS.iter().filter(|_| is_scan).copied();
    let others = LINKS.iter().filter(|(from, _, _)| *from == id);
    let links = of_scan.chain(others.map(|(_, to, place)| (*to, *place)));
    let Some(RefOr::T(response)) = operation.responses.responses.get_mut("200") else {
        return;
    };
    for (to, place) in links {
        let link = LinkBuilder::new()
            .operation_id(to)
            .parameter("id", format!("$response.body#{place}"))
            .build();
        response.links.insert(to.to_owned(), RefOr::T(link));
    }
}

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::*;

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
fn every_operation_has_a_route_that_needs_its_scope() {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    for operation in operation::Operation::ALL {
        let end = format!("/{}", operation.name());
        let mut routes = paths.iter().filter(|(path, _)| path.ends_with(&end));
        let route = routes.find(|(_, item)| item["post"].is_object());
        let (path, item) = route.unwrap_or_else(|| panic!("{end} has no route"));
        let scope = &item["post"]["security"][0][SCHEME][0];
        assert_eq!(scope, operation.scope().name(), "{path}");
    }
}

/// A handler names the type of its options for the query, and the type of its body names it again.
#[test]
fn the_query_has_the_options_of_the_body() {
    let document = document();
    let referred = |to: &serde_json::Value| document.pointer(&to["$ref"].as_str()?[1..]);
    let mut compared = 0;
    for operation in operations(&document) {
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let Some(body) = referred(body) else { continue };
        // They can also be null.
        let choice = body["properties"]["options"]["oneOf"].as_array();
        let Some(options) = choice.into_iter().flatten().find_map(referred) else {
            continue;
        };
        let options = options["properties"].as_object().unwrap().keys();
        let options: BTreeSet<&str> = options.map(String::as_str).collect();
        let parameters = operation["parameters"].as_array().unwrap().iter();
        let query = parameters.filter(|parameter| parameter["in"] == "query");
        let query: BTreeSet<&str> = query
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        assert_eq!(query, options, "{}", operation["operationId"]);
        compared += 1;
    }
    assert!(compared >= operation::Operation::ALL.len());
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
    let (json, msgpack, form) = (
        "application/json",
        "application/msgpack",
        "multipart/form-data",
    );
    let all = [json, msgpack, "application/octet-stream", "image/*", form];
    for operation in operations(&document) {
        let Some(content) = operation.pointer("/requestBody/content") else {
            continue;
        };
        let forms = content.as_object().unwrap().keys().map(String::as_str);
        // Only batches can have lines.
        let has_lines = operation["tags"][0] == "batches";
        let forms = forms.filter(|form| !(has_lines && *form == "application/x-ndjson"));
        let forms: Vec<&str> = forms.collect();
        let schema = content[json]["schema"]["$ref"].as_str().unwrap();
        let properties = &document.pointer(&schema[1..]).unwrap()["properties"];
        let has_entries = |name: &str| properties[name]["items"]["$ref"].is_string();
        let expected: &[&str] = if ["images", "faces", "items"].into_iter().any(has_entries) {
            &all
        } else if properties["a"].is_object() {
            // One image has no second face.
            &[json, msgpack, form]
        } else {
            &[json]
        };
        assert_eq!(forms, expected, "{}", operation["operationId"]);
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

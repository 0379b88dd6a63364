//! The OpenAPI 3.1 description, made from the table of routes.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use weir_service::http::{ANY, Kind, Parameter};

use super::problem::{Answer, JSON, json_response};
use super::routes::{PARTS, ROUTES, Route};
use super::{Api, Call};

pub(super) fn describe(_: &Arc<Api>, _: &Call) -> Answer {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.verb.name().to_lowercase()] = operation(route);
    }
    let description = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weir sFlow analyser",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Paths and field names are those of sFlow-RT's REST API for what both have.",
        },
        "paths": paths,
        "components": {"schemas": {"Error": {
            "type": "object",
            "required": ["error"],
            "properties": {
                "error": {"type": "string", "description": "What is wrong and what to do, in one line."},
                "offset": {"type": "integer", "description": "The byte of a filter at which it went wrong."},
                "caret": {"type": "string", "description": "A line that points at it, below the text."},
            },
        }}},
    });
    Ok(json_response(StatusCode::OK, &description))
}

fn operation(route: &Route) -> Value {
    let parts = PARTS.iter().filter(|(name, _)| route.path.contains(&format!("{{{name}}}")));
    let mut parameters: Vec<Value> = parts
        .map(|(name, about)| {
            json!({"name": name, "in": "path", "required": true, "description": about, "schema": {"type": "string"}})
        })
        .collect();
    parameters.extend(route.query.iter().map(|parameter| {
        json!({"name": parameter.name, "in": "query", "description": parameter.about, "schema": schema(parameter)})
    }));
    if route.further {
        parameters.push(json!({
            "name": "conditions",
            "in": "query",
            "description": "Metrics that a data source or its agent must have, with their values; * stands for any text.",
            "style": "form",
            "explode": true,
            "schema": {"type": "object", "additionalProperties": {"type": "string"}},
        }));
    }
    let answer = match (route.body.is_some(), route.verb.name(), route.media) {
        (true, ..) => json!({
            "204": {"description": "Done."},
            "200": {
                "description": "Done, with `notes`: what was taken otherwise than asked for, or names what is not there yet.",
                "content": {JSON: {"schema": {"type": "object"}}},
            },
        }),
        (_, "DELETE", _) => json!({"204": {"description": "Done."}}),
        (_, _, JSON) => json!({"200": {"description": route.about, "content": {JSON: {"schema": {}}}}}),
        (_, _, media) => {
            json!({"200": {"description": route.about, "content": {media: {"schema": {"type": "string"}}}}})
        }
    };
    let mut responses = answer;
    responses["default"] =
        json!({"description": "An error.", "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}});
    let mut operation = json!({
        "summary": route.about,
        "operationId": name(route),
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(body) = route.body {
        let example: Value = serde_json::from_str(body).unwrap_or_default();
        operation["requestBody"] =
            json!({"required": true, "content": {JSON: {"example": example, "schema": {"type": "object"}}}});
    }
    operation
}

/// `put_flow_name_json`
fn name(route: &Route) -> String {
    let words = route.path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(route.verb.name().to_lowercase().as_str()).chain(words).collect::<Vec<_>>().join("_")
}

fn schema(parameter: &Parameter) -> Value {
    match parameter.kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Choice { of, default } => json!({"type": "string", "enum": of, "default": default}),
        Kind::Whole { least, most, default } => {
            let mut schema = json!({"type": "integer", "minimum": least});
            if let Some(default) = default {
                schema["default"] = default.into();
            }
            if most != ANY {
                schema["maximum"] = most.into();
            }
            schema
        }
        Kind::Real { least, most, default } => {
            let mut schema = json!({"type": "number", "default": default});
            if least != f64::MIN {
                schema["minimum"] = least.into();
            }
            if most != f64::MAX {
                schema["maximum"] = most.into();
            }
            schema
        }
    }
}

//! Responses that the gateway writes itself.

use hyper::Response;
use hyper::header::CONTENT_TYPE;
use proctor_model_api::Wire;

use crate::call::Body;

/// An error that the gateway wrote, in the form of the API.
pub(super) fn refusal(wire: Wire, status: u16, message: &str) -> Response<Body> {
    json_response(status, &wire.error_body(status, message))
}

pub(super) fn json_response(status: u16, body: &serde_json::Value) -> Response<Body> {
    let response = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()));
    response.expect("a status of three digits and a constant header")
}

/// Makes clients that try a WebSocket first fall back to plain requests.
pub(super) fn upgrade_required() -> Response<Body> {
    let response = Response::builder()
        .status(426)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(
            r#"{"error":{"message":"use plain HTTP"}}"#.to_owned(),
        ));
    response.expect("a constant status and a constant header")
}

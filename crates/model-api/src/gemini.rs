//! The endpoints of Gemini, whose paths name the model.

use crate::path::model_segment;
use crate::wire::{Kind, Route, Wire};

/// Finds the model and the method in `/v1beta/models/M:method`, with the version or without.
pub(crate) fn route(path: &str) -> Option<Route> {
    let (model, method) = without_version(path)
        .strip_prefix("/models/")?
        .split_once(':')?;
    let (kind, streams) = match method {
        "generateContent" => (Kind::Generate, false),
        "streamGenerateContent" => (Kind::Generate, true),
        "countTokens" => (Kind::CountTokens, false),
        _ => return None,
    };
    // The slash behind a vendor's name stays: gateways behind this one route by it.
    let segment = model_segment(model)?.replace("%2F", "/");
    let path = format!("/v1beta/models/{segment}:{method}");
    let mut route = Route::new(Wire::Gemini, kind, path);
    route.model = Some(model.to_owned());
    route.streams = streams;
    Some(route)
}

/// The list of models, or one of them.
pub(crate) fn route_lookup(path: &str) -> Option<Route> {
    let rest = without_version(path).strip_prefix("/models")?;
    let is_model = |name: &str| !name.is_empty() && !name.contains(['/', ':', '[', ']']);
    if !rest.is_empty() && !rest.strip_prefix('/').is_some_and(is_model) {
        return None;
    }
    let path = format!("/v1beta/models{rest}");
    Some(Route::new(Wire::Gemini, Kind::Lookup, path))
}

fn without_version(path: &str) -> &str {
    let rest = path.strip_prefix("/v1beta");
    rest.or_else(|| path.strip_prefix("/v1")).unwrap_or(path)
}

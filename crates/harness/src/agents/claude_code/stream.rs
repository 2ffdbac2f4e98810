//! Reads stream-json.

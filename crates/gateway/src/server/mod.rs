//! The server: listeners, workers, and the handling of each request.

mod fetch;
mod handler;
mod listener;
mod metrics;
mod pages;
mod proxy;
mod refusal;
mod request_body;
mod reserve;
mod tls_hello;
mod worker;

pub(crate) use listener::Server;
pub(crate) use worker::ListenerAccess;

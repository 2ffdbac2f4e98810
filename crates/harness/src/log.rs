//! `youbencha-log.json`: the normalised account of one agent's session.

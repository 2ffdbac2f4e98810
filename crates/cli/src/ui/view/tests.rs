//! What the view shows.

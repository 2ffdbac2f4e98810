//! The modules of this crate form no import cycle.

#[test]
fn modules_form_no_import_cycle() {
    let src = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    proctor_testkit::layers::check_acyclic(src.into()).unwrap_or_else(|fault| panic!("{fault}"));
}

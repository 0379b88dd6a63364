//! The page of a running analyser, in a real browser: `web/test/flood.mjs` sends a flood as an agent samples it, and approves.

use crate::sflow::page::run;

#[test]
#[ignore = "long: 29 s"]
fn a_flood_is_on_the_page_and_a_person_decides() {
    run("flood.mjs");
}

//! One sender, several receivers behind a switch: an account for each.

use super::Lab;

#[test]
fn a_bad_leg_harms_nobody_else() {
    let lab = Lab::new();
    let set = ["run.duration=1s", "run.drain=500ms", "links.lossy.forward.loss=10%", "receive.buffer=4MiB"];
    let [run, again] = ["first", "second"].map(|out| lab.run("multicast", out, &set).good());
    assert_eq!(run.manifest()["planned_cells"], 4, "one a receiver");
    let receiver = |name: &str| run.row(&format!("single@{name}"));
    for row in run.rows() {
        assert_eq!((row.count("sent"), row.count("unexplained")), (1000, 0), "{row:?}");
        // A receiver that the machine keeps from its processor for long enough loses some of its own.
        let lost = row.count("planned_drops") + row.count("socket_drops");
        assert_eq!(row.count("sent") - row.count("delivered"), lost, "{row:?}");
    }
    assert_eq!(receiver("clean").count("planned_drops"), 0);
    assert_eq!(receiver("distant").count("planned_drops"), 0);
    let [clean, distant] = ["clean", "distant"].map(|name| receiver(name).number("delay_p50_us"));
    assert!(distant >= 50_000.0 && clean < distant, "{clean} {distant}");
    let lost = receiver("random").count("planned_drops");
    assert!(super::is_binomial(lost as u64, 1000, 0.1), "{lost}");
    assert_eq!(receiver("random").text("loss_pct"), "10");
    assert_eq!(receiver("bursty").text("loss_pct"), "2");
    for row in again.rows() {
        let first = run.row(row.text("cell"));
        assert_eq!(row.text("planned_drops"), first.text("planned_drops"), "the same seed loses the same");
    }
}

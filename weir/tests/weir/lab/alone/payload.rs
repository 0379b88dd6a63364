//! Readers that stall, for as long as is asked.

use super::super::Lab;
use super::super::payload::cells;

#[test]
fn a_reader_that_stalls_loses_whole_stretches_unless_its_buffer_holds_them() {
    let lab = Lab::new();
    let names = ["20 % of 100 Mbit/s, default", "20 % of 100 Mbit/s, 16 MiB", "three receivers"];
    let flood = ["run.duration=600ms", "run.drain=1s", "traffic.payload=64B", "traffic.interval=0s"];
    let run = cells(&lab, "stalls", &names, &flood);
    assert_eq!(run.rows().len(), 6, "one a receiver");
    for row in run.rows() {
        assert_eq!(row.count("unexplained"), 0, "{row:?}");
        let lost = row.count("socket_drops") + row.count("backlog_drops");
        assert_eq!(row.count("sent") - row.count("delivered"), lost, "{row:?}");
        assert!(row.count("sent") > 0 && row.number("sent_msgs_per_s") > 0.0, "{row:?}");
        if !row.text("traced_drops").is_empty() {
            let (traced, counted) = (row.count("traced_receive_buffer_drops"), row.count("socket_drops"));
            let remarks = run.record(row.text("cell"))["remarks"].to_string();
            assert_eq!(traced != counted, remarks.contains("the result uses the socket's"), "{remarks} {row:?}");
            // A backlog's worth of drops may reach no tracepoint.
            assert!(traced <= counted && (traced > 0 || counted <= 1000), "{remarks} {row:?}");
        }
        assert!(row.number("buffer_level_max_bytes") > 0.0 && row.number("interrupts_per_s") > 0.0, "{row:?}");
    }
    let [small, large] = ["default", "16 MiB"].map(|buffer| run.row(&format!("20 % of 100 Mbit/s, {buffer}@one")));
    // 40 ms without a reader are 900 datagrams; the buffer holds 256.
    assert!(small.count("longest_gap") > 300 && small.count("socket_drops") > 300, "{small:?}");
    assert_eq!(large.count("socket_drops"), 0, "{large:?}");
    assert!(large.number("longest_stall_ms") > 20.0, "{large:?}");
    assert!(large.number("receive_buffer_bytes") > small.number("receive_buffer_bytes"));

    for chart in ["received", "lost", "buffer"] {
        assert!(run.dir.join(format!("charts/{chart}.svg")).exists(), "{chart}");
    }
}

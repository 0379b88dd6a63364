use super::*;
use crate::fixture;
use crate::record::Statistic;

#[test]
fn a_run_in_words() {
    let (manifest, mut records) = (fixture::matrix_manifest(), fixture::matrix_records());
    records[0].row.unexplained = Some(-3);
    let words = sentences(&manifest, &records);
    let warnings = warnings(&Manifest { interrupted: true, planned_cells: 270, ..manifest }, &records);
    insta::assert_snapshot!(format!("{}\n---\n{}", words.join("\n"), warnings.join("\n")));
}

#[test]
fn what_to_do_about_disturbed_cells_is_said_once() {
    let mut records = fixture::records();
    for record in &mut records {
        record.row.valid = false;
        record.disturbed = [(Statistic::Rate, "a processor stood still".to_owned())].into();
    }
    let alone = Manifest { source: "[run]\njobs = 1\n".into(), ..fixture::manifest() };
    let all = Manifest { source: "[run]\njobs = \"all\"\n".into(), ..fixture::manifest() };
    assert_eq!(warnings(&alone, &records).len(), 1);
    let told = warnings(&all, &records);
    assert!(told.len() == 2 && told[1].contains("`--set run.jobs=1`"), "{told:?}");
}

#[test]
fn receivers_of_one_cell_are_no_cells_beside_it() {
    let mut records: Vec<Record> = fixture::records().into_iter().take(2).collect();
    for (record, receiver) in records.iter_mut().zip(["a", "b"]) {
        record.row.cell = format!("single@{receiver}");
        record.axes = vec![(columns::RECEIVER.to_owned(), receiver.to_owned())];
        (record.row.sent, record.row.delivered, record.row.valid) = (3000, 2990, false);
        let why = "the emulator was late for 23.1 % of the time (run.max_standstill is 5%)";
        record.disturbed = [(Statistic::Rate, why.to_owned())].into();
    }
    let manifest = Manifest { source: String::new(), planned_cells: 2, ..fixture::manifest() };
    let said = carried(&manifest, &records);
    assert!(said.ends_with("3000 messages were sent, 5980 delivered to several receivers."), "{said}");
}

#[test]
fn what_falls_short_of_what_was_asked_for_is_a_warning() {
    let mut records = fixture::records();
    records[1].remarks = vec![format!("{LATE_SENDER} its schedule: its last message left 2.0 s after the window")];
    // Both receivers of one cell have what became of its capture.
    for (record, receiver) in records[2..4].iter_mut().zip(["a", "b"]) {
        record.row.cell = format!("1%@{receiver}");
        record.remarks = vec!["nothing".into(), format!("{CAPTURE_LACKS} 3 of 9 packets: x.pcapng")];
    }
    records[0].remarks = vec![format!("{SENDER_FAILED}: send: operation not permitted (47 times)")];
    assert_eq!(
        warnings(&fixture::manifest(), &records)[..3],
        [
            "Cell 0%/tcp was sent late: the sender fell behind its schedule: its last message left 2.0 s after the window.",
            "Cell 0%/udp was not sent completely: the sender met errors: send: operation not permitted (47 times).",
            "Cell 1%@a is not captured completely: the capture lacks 3 of 9 packets: x.pcapng."
        ]
    );
}

#[test]
fn many_disturbed_cells_are_one_warning() {
    let mut records = fixture::records();
    for record in &mut records {
        record.row.valid = false;
        record.remarks = vec!["the machine stood still for 40 ms".into()];
    }
    assert_eq!(
        warnings(&fixture::manifest(), &records),
        ["42 cells are not valid: 0%/udp, 0%/tcp, 1%/udp and 39 more. 0%/udp: the machine stood still for 40 ms."]
    );
}

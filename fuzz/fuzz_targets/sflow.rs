//! Arbitrary bytes as an sFlow datagram: everything in it is read, and what can be written again is read the same.
//!
//! `cargo +nightly fuzz run sflow` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_wire::sflow::encode::{self, Header};
use weir_wire::sflow::{Datagram, Sample, Value, View};

fuzz_target!(|bytes: &[u8]| {
    let Ok(datagram) = Datagram::parse(bytes) else { return };
    let Datagram { agent, sub_agent, sequence, uptime, .. } = datagram;
    let mut again = Vec::new();
    let mut written = encode::datagram(&mut again, &Header { agent, sub_agent, sequence, uptime });
    let mut unknown = 0;
    for sample in datagram.samples().filter_map(Result::ok) {
        if let Sample::Unknown { format, body } = sample {
            written.raw(format, body);
            unknown += 1;
        }
        for record in sample.records().filter_map(Result::ok) {
            let whole = record.values().all(|value| value.map(|(_, value)| look(value)).is_ok());
            match record.view() {
                Ok(View::Other) => {}
                view => assert_eq!(view.is_ok(), whole, "{record:?}"),
            }
        }
    }
    let read = Datagram::parse(&again).expect("what was written");
    assert_eq!((read.agent, read.sequence, read.samples().count()), (agent, sequence, unknown));
});

fn look(value: Value<'_>) {
    match value {
        Value::Structure(values) => values.for_each(|value| {
            value.map(|(_, value)| look(value)).expect("read once, when the structure around it was");
        }),
        Value::List(list) => {
            let said = list.size_hint().0;
            assert_eq!(list.inspect(|value| look(*value)).count(), said);
        }
        Value::Records(records) => assert!(records.into_iter().all(|record| record.is_ok())),
        _ => {}
    }
}

//! Every capture decodes field for field as sflowtool has decoded it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::Value;
use weir_sflow::decode::{Arrived, Decoder, Form, Settings};
use weir_wire::ip::Headers;
use weir_wire::pcap::{Reader, Step};

use super::names;

/// Fields of one thing, in sflowtool's names.
pub(super) type Fields = BTreeMap<String, String>;

#[test]
fn captures_decode_as_sflowtool_decodes_them() {
    let Some(folder) = super::captures() else { return };
    let files = fs::read_dir(&folder).unwrap();
    let (mut captures, mut datagrams, mut differences) = (0, 0, Vec::new());
    for file in files.map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "pcap") {
            captures += 1;
            datagrams += compare(&folder, &file, &mut differences);
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    assert!(captures >= 28 && datagrams >= 1195, "{captures} captures, {datagrams} datagrams");
}

/// Compares a capture; how many datagrams it had.
fn compare(folder: &Path, capture: &Path, differences: &mut Vec<String>) -> usize {
    let name = capture.file_stem().unwrap().to_str().unwrap();
    let mut text = String::new();
    let file = File::open(folder.join(format!("expected/{name}.sflowtool.json.gz"))).unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let stops = names::STOPS.contains(&name);
    // Objects in a row. Where sflowtool gives up a datagram, it leaves its object unfinished.
    let expected = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let expected: Vec<Value> =
        expected.map_while(|object| if stops { object.ok() } else { Some(object.unwrap()) }).collect();
    let mut expected = expected.iter().filter(|object| object["datagramVersion"] == "5");
    let mut compared = 0;
    for (time, payload) in payloads(&fs::read(capture).unwrap()) {
        let Some(samples) = decoded(time, &payload) else { continue };
        compared += 1;
        let Some(expected) = expected.next() else {
            assert!(stops, "{name}: sflowtool has no datagram {compared}");
            break;
        };
        let place = format!("{name}: datagram {compared}");
        let told = expected["samples"].as_array().unwrap();
        if !names::MALFORMED.contains(&name) {
            assert_eq!(samples.len(), told.len(), "{place}");
        }
        for (number, (ours, theirs)) in samples.iter().zip(told).enumerate() {
            let place = format!("{place}, sample {number}");
            if names::MALFORMED.contains(&name) && ours.get("error").is_some() {
                break;
            }
            differ(
                &place,
                &names::datagram(ours),
                &names::without(expected, &["samples", "datagramSize"]),
                differences,
            );
            differ(&place, &names::sample(ours), &names::without(theirs, &["elements", "sampleType"]), differences);
            let (records, elements) = (ours["records"].as_array().unwrap(), theirs["elements"].as_array().unwrap());
            if !names::MALFORMED.contains(&name) {
                assert_eq!(records.len(), elements.len(), "{place}: {records:?} {elements:?}");
            }
            for (record, element) in records.iter().zip(elements) {
                if record.get("error").is_none() {
                    let (ours, theirs) = names::corrected(
                        names::record(record, ours["sample"].as_str().unwrap().starts_with("counters")),
                        names::without(element, &[]),
                    );
                    differ(&format!("{place}, {}", record["structure"]), &ours, &theirs, differences);
                }
            }
        }
    }
    assert!(stops || expected.next().is_none(), "{name}: sflowtool has more than {compared} datagrams");
    compared
}

/// Notes the fields that are not the same.
fn differ(place: &str, ours: &Fields, theirs: &Fields, differences: &mut Vec<String>) {
    for name in ours.keys().chain(theirs.keys().filter(|name| !ours.contains_key(*name))) {
        let (ours, theirs) = (ours.get(name), theirs.get(name));
        if ours != theirs {
            differences.push(format!("{place}: {name}: {ours:?}, sflowtool {theirs:?}"));
        }
    }
}

/// The payloads of UDP datagrams with their times.
fn payloads(file: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let (mut reader, mut rest, mut payloads) = (Reader::new(), file, Vec::new());
    while let Step::Used(used, packet) = reader.step(rest).unwrap() {
        rest = &rest[used..];
        if let Some(packet) = packet {
            let ip = packet.link.ip(packet.bytes).unwrap();
            let payload = Headers::parse(ip).unwrap().body(ip)[8..].to_vec();
            payloads.push((packet.stamp.unwrap(), payload));
        }
    }
    assert!(rest.is_empty());
    payloads
}

/// The samples of a datagram as they are printed; `None`: it is none of sFlow version 5.
fn decoded(time: u64, payload: &[u8]) -> Option<Vec<Value>> {
    let mut lines = Vec::new();
    let mut decoder = Decoder::new(Settings { form: Some(Form::Json), only: None }, &mut lines);
    let arrived = Arrived { time: Some(time), source: "192.0.2.1:1".parse().unwrap(), port: 6343, payload };
    let _ = decoder.take(&arrived).unwrap();
    let _ = decoder.flush().unwrap();
    let totals = decoder.totals;
    let lines = str::from_utf8(&lines).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (totals.datagrams == 1).then_some(lines)
}

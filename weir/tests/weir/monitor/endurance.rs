//! A station that is started again and again, beside a server and a recorder that go on: for two minutes, or as long as
//! `WEIR_ENDURANCE` says in seconds.

use std::fs;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use weir_testbed::Started;

use super::together::resident;
use crate::service::Machine;
use crate::weir;

#[test]
#[ignore = "long: 18 s"]
fn a_station_comes_and_goes_and_nothing_grows_or_lacks() {
    let Some(machine) = Machine::new() else { return };
    let seconds: u64 = std::env::var("WEIR_ENDURANCE").map_or(15, |seconds| seconds.parse().unwrap());
    let dir = TempDir::new().unwrap();
    let config = dir.path().join("serve.toml");
    fs::write(
        &config,
        "http = \"127.0.0.1:5180\"\nhistory = \"10s\"\nmemory = \"4MiB\"\n[[listen]]\naddress = \"127.0.0.1:5111\"\n",
    )
    .unwrap();
    let server = weir(&["monitor", "serve", "--config", config.to_str().unwrap()]);
    let mut server = machine.run(|| Started::ready(server));
    let mut record =
        weir(&["monitor", "record", "--json", "--user", "root", "--listen", "127.0.0.1:5112", "--leave", "0", "--dir"]);
    record.arg(dir.path());
    let recorder = machine.run(|| Started::ready(record));

    let (begun, mut had, mut starts, mut memory) = (Instant::now(), 0, 0_u64, Vec::new());
    // Of fewer lives, on a machine that is busy, the first would tell of all quarters.
    while begun.elapsed() < Duration::from_secs(seconds) || starts < 4 {
        let source = "sine,name=coil,rate=1k/s,copies=16";
        let to = ["--to", "127.0.0.1:5111", "--to", "127.0.0.1:5112"];
        let station =
            weir(&[&["monitor", "station", "--json", "--name", "test", "--source", source][..], &to].concat());
        let station = machine.run(|| Started::ready(station));
        // As long as it lives: there is no event for that.
        std::thread::sleep(LIFE);
        memory.push([&server, &recorder].map(resident));
        let ledger = station.stop();
        had += ledger["streams"][0]["samples"]["due"].as_u64().unwrap();
        starts += 1;
    }
    let ledger = recorder.stop();
    let of = |key: &str| ledger["archive"][key].as_u64().unwrap();
    // Between two lives nothing was due; within them every sample is in the archive, or a gap of it.
    assert_eq!(of("kept") + of("missing"), had, "{ledger:#}");
    // Each life says its end six times.
    assert_eq!(ledger["received"]["by_kind"]["end"].as_u64().unwrap() / starts, 6, "{ledger:#}");
    assert_eq!(server.end().status, Some(0));
    let quarter = memory.len() / 4;
    for program in 0..2 {
        let most = |part: &[[u64; 2]]| part.iter().map(|both| both[program]).max().unwrap();
        let (before, after) = (most(&memory[quarter..=2 * quarter]), most(&memory[3 * quarter..]));
        assert!(after <= before + (4 << 20), "{before} bytes, then {after}: {memory:?}");
    }
}

const LIFE: Duration = Duration::from_secs(4);

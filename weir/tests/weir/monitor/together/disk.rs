//! A recorder whose disk is full, and a viewer beside it.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_testbed::standstills::Standstills;

use super::socket::{Client, Told, age};
use super::*;
use crate::network::network;

/// A viewer is told everything until so many samples are not kept for want of room. Ages of what it is told, sorted.
fn beside_a_full_disk(unkept: u64) -> Option<Vec<Duration>> {
    let unshare = program("unshare")?;
    let [one, recorder, viewer] = network(["station", "recorder", "viewer"])?;
    let dir = tempfile::tempdir().unwrap();
    // A disk of 24 MB of which 23 are another's.
    let script = format!(
        "mount -t tmpfs -o size=24m none {dir} && head -c 23M /dev/zero >{dir}/others &&\n\
         exec {weir} monitor record --json --listen {GROUP} --interface eth0 --leave 0 --dir {dir}",
        dir = dir.path().display(),
        weir = *WEIR,
    );
    let mut command = Command::new(unshare);
    command.args(["--mount", "sh", "-c", &script]).stdin(Stdio::null());
    let mut recording = recorder.run(|| Started::ready(command));
    let mut server = start_server(&viewer.ns, GROUP);
    let station = start_station(&one.ns, "coil", &["--display", "0", "--source", "sine,name=s,rate=20k/s,copies=8"]);
    server.await_ledger(|ledger| ledger["channels"] == 8);
    let mut client = Client::connect(&viewer.ns);
    client.ask(&[0, 1, 2, 3, 4, 5, 6, 7], 1000.0, 1000);
    client.await_told(|told| matches!(told, Told::Text(text) if text.get("whole").is_some()));
    let ended = AtomicBool::new(false);
    let standstills = Standstills::watch();
    let ages = thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut ages = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                match client.next().unwrap() {
                    Told::Samples { end, .. } => ages.push((Instant::now(), age(end))),
                    Told::Gap { first, samples, .. } => panic!("{samples} are missing from {first} on"),
                    Told::Close(why) => panic!("{why}"),
                    Told::Text(_) => {}
                }
            }
            ages
        });
        let ledger = recording.await_ledger(|ledger| ledger["archive"]["unkept"].as_u64() > Some(unkept));
        assert!(ledger["archive"]["came"].as_u64() > Some(unkept), "{ledger:#}");
        ended.store(true, Ordering::Relaxed);
        watching.join().unwrap()
    });
    let sent = sent(&station.stop());
    server.await_ledger(|ledger| has_ended(ledger, "coil"));
    let ledger = server.stop();
    assert_eq!(received(&ledger), (sent, 0), "{ledger:#}");
    recording.await_ledger(|ledger| ledger["archive"]["came"] == sent);
    let ledger = recording.stop();
    assert_eq!(received(&ledger), (sent, 0), "{ledger:#}");
    let number = |key: &str| ledger["archive"][key].as_u64().unwrap();
    assert_eq!(number("kept") + number("unkept"), sent, "{ledger:#}");
    let mut ages: Vec<Duration> = ages.into_iter().map(|(at, age)| standstills.running(at - age, at)).collect();
    ages.sort_unstable();
    Some(ages)
}

#[test]
fn a_viewer_misses_nothing_while_the_disk_is_full() {
    beside_a_full_disk(50_000);
}

mod alone {
    use super::*;

    #[test]
    #[ignore = "long: 4 s"]
    fn a_viewer_is_in_time_while_the_disk_is_full() {
        let Some(ages) = beside_a_full_disk(500_000) else { return };
        let (median, late) = (ages[ages.len() / 2], ages[ages.len() * 99 / 100]);
        eprintln!("a viewer beside a full disk: {median:?}, 99 of 100 within {late:?}");
        assert!(median <= Duration::from_millis(50) && late <= Duration::from_millis(250), "{median:?}, {late:?}");
    }
}

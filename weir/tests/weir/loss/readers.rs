//! `weir loss check` of receivers with a reader that is too slow, or hangs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weir_testbed::Ended;

use super::check::{at_once, check, held, here, json, names};
use crate::service::Machine;

/// The commonest fault: a handler that takes half a millisecond, at 5,000 datagrams a second.
#[test]
fn a_reader_that_is_too_slow_is_found_with_no_load_stated() {
    let Some(machine) = Machine::new() else { return };
    let ns = machine.namespace();
    let [socket, source] = [(); 2].map(|()| machine.udp("127.0.0.1:0"));
    let to = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if socket.recv(&mut [0; 200]).is_ok() {
                    thread::sleep(Duration::from_micros(500));
                }
            }
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for _ in 0..5 {
                    source.send_to(&[7; 100], to).unwrap();
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        // It is found by its port, and among all; and a load that is no matter is no all-clear.
        let (port, netns) = (to.port().to_string(), held(&ns));
        let among_all = ["--json", "--netns", &netns];
        let by_port = [&["--port", &port][..], &among_all].concat();
        let little = "--rate 10/s --payload 64B --stall 1ms";
        let [one, all, one_little, all_little] =
            at_once([check("", &by_port), check("", &among_all), check(little, &by_port), check(little, &among_all)]);
        over.store(true, Ordering::Relaxed);
        for (status, report) in [one, all] {
            assert_eq!(status, Some(3), "{report}");
            assert!(names(&report["findings"]).contains(&"reader"), "{report}");
            let seen = &report["facts"]["seen"];
            assert_eq!(
                (&seen["address"], &seen["load"]["payload"]),
                (&to.to_string().into(), &report["load"]["payload"])
            );
            assert!(seen["advice"]["receive_buffer"].is_null() && seen["lost"].as_u64() > Some(0), "{seen}");
        }
        for (status, report) in [one_little, all_little] {
            assert_eq!((status, names(&report["findings"]).contains(&"losing")), (Some(3), true), "{report}");
        }
    });
    let little =
        |flags: &[&str]| check("--rate 10/s --payload 64B --stall 1ms", &[flags, &["--netns", &held(&ns)]].concat());
    let (status, report) = json(little(&["--json"]));
    assert!(here(&report).is_empty(), "{report}");
    assert_eq!(status, Some(if names(&report["findings"]).is_empty() { 0 } else { 3 }));
    let words = Ended::of(&mut little(&[])).stdout;
    assert!(words.contains(&format!("{to} (")) && words.contains(&format!(", pid {})", std::process::id())), "{words}");
    assert!(words.contains("datagrams since it was opened, none in the "), "{words}");
}

/// Its queue is full when the check begins, and nothing of it is read while datagrams come.
#[test]
fn a_reader_that_hangs_is_found_while_it_hangs() {
    let Some(machine) = Machine::new() else { return };
    let ns = machine.namespace();
    let [socket, source] = [(); 2].map(|()| machine.udp("127.0.0.1:0"));
    let to = socket.local_addr().unwrap();
    let dropped = || {
        let listed = weir_kernel::counters::sockets(&ns).unwrap();
        listed.iter().find(|one| one.local == to).map_or(0, |one| one.memory.drops)
    };
    while dropped() == 0 {
        source.send_to(&[7; 1000], to).unwrap();
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                source.send_to(&[7; 1000], to).unwrap();
                thread::sleep(Duration::from_millis(2));
            }
        });
        let (port, netns) = (to.port().to_string(), held(&ns));
        let little = "--rate 10/s --payload 64B --stall 1ms --interface lo";
        let by_port = ["--json", "--netns", &netns, "--port", &port];
        // By its port and among all; and with a load that is seen, of which nothing comes to the socket.
        let told = at_once([check(little, &by_port), check(little, &by_port[..3]), check("", &by_port)]);
        over.store(true, Ordering::Relaxed);
        for (status, report) in told {
            assert_eq!(status, Some(3), "{report}");
            let findings = report["findings"].as_array().unwrap();
            let reader = findings.iter().find(|finding| finding["name"] == "reader");
            let what = reader.map(|finding| finding["what"].to_string()).unwrap_or_default();
            assert!(what.contains(&to.to_string()) && what.contains("reads nothing: no buffer helps"), "{report}");
            assert!(!names(&report["findings"]).contains(&"receive_buffer"), "{report}");
        }
    });
    drop(socket);
}

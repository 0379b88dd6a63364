//! A gobgpd that hangs, and things that are no gobgpd.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Instant;

use nix::sys::signal::Signal;
use weir_program::config::Address;
use weir_protect::bgp::State;
use weir_protect::config::document::OnStop;
use weir_protect::model::Installed;
use weir_protect::settings::Speaker as Settings;
use weir_testbed::PATIENCE;
use weir_testbed::random::Source;

use crate::network::{Network, are_installed, blackhole, blackholes, gobgpds, settings};

fn why(state: &State) -> Option<String> {
    state.speaking.why.clone()
}

/// Nobody waits for it: neither who wants routes nor who ends.
#[test]
#[ignore = "long: 9 s"]
fn a_gobgpd_that_hangs_is_noticed_and_caught_up_with() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let (Some(running), Some(_bird)) = (network.gobgpd(gobgpd), network.bird()) else { return };
        let held = network.speaker(&Settings { on_stop: OnStop::Withdraw, ..settings() });
        held.install(&blackholes(10));
        running.signal(Signal::SIGSTOP);
        held.speaker.want(&blackholes(20));
        assert_eq!(why(&held.speaker.state()), None, "it has waited");
        held.until("noticed", |state| why(state).as_deref() == Some("it does not answer"));
        assert_eq!(held.speaker.state().installed(&blackhole("10.9.4.1/32")), Installed::Waiting);
        running.signal(Signal::SIGCONT);
        held.until("caught up", |state| are_installed(state, &blackholes(20)));
        running.signal(Signal::SIGSTOP);
        let began = Instant::now();
        drop(held);
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    }
}

/// Nothing listens, somebody listens and says nothing, closes, speaks HTTP/1.1, or anything.
#[test]
fn what_is_no_gobgpd_is_told_once_and_does_no_harm() {
    let mut source = Source::drawn();
    let answers = [None, Some(Vec::new()), Some(b"HTTP/1.1 404 Not Found\r\n\r\n".to_vec()), Some(source.bytes(3000))];
    for answer in answers {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let gobgp = listener.local_addr().unwrap();
        let (tell, bell) = std::sync::mpsc::channel();
        let is_silent = answer.is_none();
        thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                match &answer {
                    None => kept.push(stream),
                    Some(bytes) => {
                        drop(stream.read(&mut [0; 100]));
                        drop(stream.write_all(bytes));
                    }
                }
            }
        });
        let settings = Settings { gobgp: Address(gobgp), ..settings() };
        let speaker = weir_protect::bgp::Speaker::start(&settings, move || tell.send(()).unwrap_or(())).unwrap();
        speaker.want(&[blackhole("10.9.4.1/32")]);
        bell.recv_timeout(PATIENCE).unwrap();
        let said = why(&speaker.state()).unwrap();
        assert!(!said.is_empty() && said.lines().count() == 1, "{said:?}");
        assert!(!is_silent || said == "it does not answer", "{said}");
        assert_eq!(speaker.state().installed(&blackhole("10.9.4.1/32")), Installed::Waiting);
    }
}

//! `[protect]` of `weir sflow serve`, and `weir protect`: floods as sFlow tells of them, and what is done.

mod agent;
mod alone {
    mod page;
    mod stopped;
}
mod clock;
mod evidence;
mod floods;
mod mistakes;
mod people;
mod replay;
mod restarts;

use std::fs::{self, Permissions};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_testbed::{Ended, PATIENCE};

use crate::sflow::serve::{File, Serve};
use crate::weir;
use agent::Agent;

/// The analyser of a test, and its agent.
pub(super) struct Scene {
    serve: Serve,
    file: File,
    agent: Agent,
}

/// Most hosts get nothing like it.
pub(super) const FLOOD: f64 = 400e3;

pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

/// What all of them have; `more` stands before `[protect.groups]`.
pub(super) fn configuration(file: &File, mode: &str, networks: &str, more: &str) {
    let dir = file.dir.path();
    let (journal, tokens) = (dir.join("journal"), dir.join("tokens"));
    fs::write(&tokens, "anna act 0123456789abcdef0123456789abcdef\n").unwrap();
    fs::set_permissions(&tokens, Permissions::from_mode(0o600)).unwrap();
    fs::write(dir.join("token"), "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::set_permissions(dir.join("token"), Permissions::from_mode(0o600)).unwrap();
    file.write(&format!(
        "user = \"root\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n[protect]\nmode = {mode:?}\nagents = [\"127.0.0.11\", \"127.0.0.12\"]\n\
         settle = \"1s\"\njournal = {journal:?}\n[protect.access]\ntokens = {tokens:?}\n[protect.speaker]\ngobgp = \"127.0.0.1:1\"\n\
         next_hop = \"198.51.100.1\"\n{more}\n[protect.groups.web]\nnetworks = [{networks}]\n\
         [protect.groups.web.thresholds.udp_flood]\npackets = \"40k/s\"\n"
    ));
}

impl Scene {
    pub(super) fn new(mode: &str, networks: &str, more: &str) -> Self {
        let file = File::new("");
        configuration(&file, mode, networks, more);
        Self::of(file)
    }

    /// As a file has it; the agent has been heard, and what its interface carries is known.
    pub(super) fn of(file: File) -> Self {
        Self::with(Serve::start(&["-c", &file.path(), "--workers", "1"]), file)
    }

    /// As above, of a program that was started already.
    pub(super) fn with(serve: Serve, file: File) -> Self {
        let mut scene = Self { serve, file, agent: Agent::new("127.0.0.11", "127.0.0.11") };
        scene.warm();
        scene
    }

    /// A little traffic, and counters of it, until there are rates.
    pub(super) fn warm(&mut self) {
        let to = self.serve.address();
        self.agent.tell_counters(to);
        let serve = &self.serve;
        let is_known = || {
            let rates = serve.get("/metric/127.0.0.11/ifinucastpkts/json");
            rates[0]["metricValue"].is_number()
        };
        assert!(self.agent.play(to, &[(HOST, 2e3)], PATIENCE, is_known), "no rates");
    }

    /// Plays until an attack is as it is to be; that attack.
    #[track_caller]
    pub(super) fn play(&mut self, flows: &[(Ipv4Addr, f64)], wanted: impl Fn(&Value) -> bool) -> Value {
        let (to, server) = (self.serve.address(), self.serve.rest().to_string());
        let token = self.token();
        let mut last = Vec::new();
        let found = self.agent.play(to, flows, PATIENCE, || {
            last = list(&server, &token);
            last.iter().any(&wanted)
        });
        assert!(found, "never: {last:#?}\n{:#?}", self.serve.said());
        last.into_iter().find(wanted).unwrap()
    }

    /// `weir protect` with these arguments; status, and what it said.
    pub(super) fn protect(&self, arguments: &[&str]) -> (i32, String) {
        let (server, token) = (self.serve.rest().to_string(), self.token());
        let asked = [&["protect"], arguments, &["--server", &server, "--token-file", &token]].concat();
        let ended = Ended::of(&mut weir(&asked));
        (ended.status.unwrap(), ended.stdout + &ended.stderr)
    }

    pub(super) fn list(&self) -> Vec<Value> {
        list(&self.serve.rest().to_string(), &self.token())
    }

    /// Kills it, and starts another in its place.
    pub(super) fn replaced(self, start: impl FnOnce(&File) -> Serve) -> Self {
        let Self { serve, file, agent } = self;
        drop(serve);
        Self { serve: start(&file), file, agent }
    }

    fn token(&self) -> String {
        self.file.dir.path().join("token").to_str().unwrap().to_owned()
    }

    /// The journal's lines, but for one that is only half there yet.
    pub(super) fn journal(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.file.dir.path().join("journal")).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until the journal is as it is to be: a thread writes it, which waits for the disk, and people are told before.
    #[track_caller]
    pub(super) fn await_journal(&self, is_reached: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let begin = Instant::now();
        loop {
            let lines = self.journal();
            if is_reached(&lines) {
                return lines;
            }
            assert!(begin.elapsed() < PATIENCE, "{lines:#?}");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn list(server: &str, token: &str) -> Vec<Value> {
    let ended = Ended::of(&mut weir(&["protect", "list", "--json", "--server", server, "--token-file", token]));
    assert_eq!(ended.status, Some(0), "{ended:?}");
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(super) fn is_on(prefix: &str) -> impl Fn(&Value) -> bool + Clone {
    let prefix = prefix.to_owned();
    move |attack| attack["target"] == prefix.as_str()
}

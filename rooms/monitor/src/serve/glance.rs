//! A server without an address: receives, keeps and watches for a screen of the same process.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result};
use weir_program::pulse::Pulses;
use weir_program::stop::Stop;

use super::board::LOOKS_APART;
use super::keeper::Keeper;
use super::open::Open;
use super::settings::Watching;
use crate::api::Shown;
use weir_signal::history::{Bounds, History};
use weir_signal::receive::{Follow, Receiver};

/// A receiver at work for a screen; ends when dropped.
#[derive(Debug)]
pub struct Glance {
    open: Arc<Open>,
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
}

impl Glance {
    /// Keeps what a receiver hands out.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(mut receiver: Receiver, history: Bounds) -> Result<Self> {
        let history = Arc::new(History::new(history));
        let open = Arc::new(Open::new(history, &Arc::new(Watching::default()), receiver.shared()));
        let stop = Stop::new().context("make a stop")?;
        let (kept, watched) = (open.clone(), open.clone());
        let (stopped, ended) = (stop.clone(), stop.clone());
        let receive = move || {
            let mut follow = Follow::new(Keeper::new(&kept)).counting(kept.changes.clone());
            receiver.run(&mut follow, &stopped, &Pulses::new().pulse("receive"));
        };
        let look = move || {
            while !ended.wait(Instant::now() + LOOKS_APART) {
                watched.look();
            }
        };
        let mut glance = Self { open, stop, threads: Vec::new() };
        let receive = thread::Builder::new().name("receive".into()).spawn(receive);
        glance.threads.push(receive.context("start thread receive")?);
        let look = thread::Builder::new().name("watch".into()).spawn(look);
        glance.threads.push(look.context("start thread watch")?);
        Ok(glance)
    }

    /// What it has.
    pub fn shown(&self) -> Arc<dyn Shown> {
        self.open.clone()
    }
}

impl Drop for Glance {
    fn drop(&mut self) {
        self.stop.set();
        for thread in self.threads.drain(..) {
            // A panic there has been told on stderr.
            let _ = thread.join();
        }
    }
}

//! The thread.
use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nix::sys::eventfd::EventFd;

use super::{Error, LinkId, LinkPorts, Settings};
use crate::ledger::LinkReport;

/// What the handle asks of the thread.
#[derive(Debug)]
pub(super) enum Command {
    /// Carry frames of this link.
    Attach(Box<LinkPorts>, mpsc::Sender<Result<LinkId, Error>>),
    /// Tell about a link.
    Report(LinkId, mpsc::Sender<Option<LinkReport>>),
    /// End a link.
    Detach(LinkId, mpsc::Sender<Option<LinkReport>>),
    /// How much CPU time has been used.
    CpuTime(mpsc::Sender<Duration>),
    /// End the thread.
    Stop,
}

#[derive(Debug)]
pub(super) struct Worker {}

impl Worker {
    pub(super) fn new(
        _settings: &Settings,
        _commands: mpsc::Receiver<Command>,
        _wake: Arc<EventFd>,
    ) -> io::Result<Self> {
        Ok(Self {})
    }
    pub(super) fn run(&mut self) {}
}

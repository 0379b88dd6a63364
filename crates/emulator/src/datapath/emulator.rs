//! The handle of an emulator thread: commands in, reports out.

use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use nix::sys::epoll::{Epoll, EpollCreateFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::sys::wait::{self, Event};
use super::worker::{Command, Inputs, Worker};
use super::{EmulatorSettings, Error, Port};
use crate::ledger::LinkReport;
use crate::model::{Direction, Nanos, Plan, Way};

/// One thread that drives any number of links. Dropping it stops the thread, detaches its links and closes their ports.
#[derive(Debug)]
pub struct Emulator {
    commands: mpsc::Sender<Command>,
    wake: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

/// A link of an emulator. Never reused within one emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub(super) u64);

/// The two ends of a link and its plans.
#[derive(Debug)]
pub struct LinkPorts {
    /// For error messages.
    pub name: String,
    /// End a.
    pub a: Port,
    /// End b.
    pub b: Port,
    /// From a to b.
    pub forward: Direction,
    /// From b to a.
    pub backward: Direction,
}

impl Emulator {
    /// Starts a thread without links.
    ///
    /// # Errors
    /// No file descriptors or threads are left, or the kernel is older than 5.11 (`epoll_pwait2`).
    pub fn spawn(settings: EmulatorSettings) -> Result<Self, Error> {
        let spawn = |operation| move |error: std::io::Error| Error::Spawn { operation, source: error };
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_value_and_flags(0, flags).map_err(|e| spawn("eventfd")(e.into()))?;
        let wake = Arc::new(wake);
        let (commands, receiver) = mpsc::channel();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|e| spawn("epoll_create1")(e.into()))?;
        // Checked here rather than later in the thread.
        wait::wait(epoll.0.as_fd(), &mut [Event::NONE], Some(0)).map_err(spawn("epoll_pwait2 (Linux 5.11)"))?;
        let inputs = Inputs::new(epoll, Arc::clone(&wake), receiver).map_err(spawn("epoll_ctl"))?;
        let thread = std::thread::Builder::new()
            .name("emulator".into())
            .spawn(move || Worker::new(&settings, inputs).run())
            .map_err(spawn("thread"))?;
        Ok(Self { commands, wake, thread: Some(thread) })
    }

    /// Starts to carry frames between the link's ports, including those that arrived since they were opened.
    ///
    /// # Errors
    /// The ports cannot be watched.
    pub fn attach(&self, link: LinkPorts) -> Result<LinkId, Error> {
        self.ask(|reply| Command::Attach(Box::new(link), reply))?
    }

    /// Sets time 0 of both directions' plans, on CLOCK_MONOTONIC: from then on their steps count and their traces run.
    /// Before, the first impairments apply. It is in effect when this returns.
    ///
    /// # Errors
    /// The link is not attached.
    pub fn start_clock(&self, id: LinkId, at: Nanos) -> Result<(), Error> {
        self.ask(|reply| Command::StartClock(id, at, reply))?.ok_or(Error::UnknownLink(id))
    }

    /// Makes one direction of a link follow another plan from now on; its clock continues. Waiting packets keep their
    /// release. It is in effect when this returns.
    ///
    /// # Errors
    /// The link is not attached.
    pub fn change_plan(&self, id: LinkId, way: Way, plan: Plan) -> Result<(), Error> {
        self.ask(|reply| Command::ChangePlan(id, way, Box::new(plan), reply))?.ok_or(Error::UnknownLink(id))
    }

    /// A snapshot of a running link.
    ///
    /// # Errors
    /// The link is not attached.
    pub fn report(&self, id: LinkId) -> Result<LinkReport, Error> {
        self.ask(|reply| Command::Report(id, reply))?.ok_or(Error::UnknownLink(id))
    }

    /// Ends a link and closes its ports. Waiting packets are counted as in flight.
    ///
    /// # Errors
    /// The link is not attached.
    pub fn detach(&self, id: LinkId) -> Result<LinkReport, Error> {
        self.ask(|reply| Command::Detach(id, reply))?.ok_or(Error::UnknownLink(id))
    }

    /// CPU time the thread has used so far.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn cpu_time(&self) -> Result<std::time::Duration, Error> {
        self.ask(Command::CpuTime)
    }

    fn ask<T>(&self, command: impl FnOnce(mpsc::Sender<T>) -> Command) -> Result<T, Error> {
        let (reply, answer) = mpsc::channel();
        let stopped = |_| Error::Stopped("no answer to a command".into());
        self.commands.send(command(reply)).map_err(|_| Error::Stopped("its command channel is closed".into()))?;
        self.wake();
        answer.recv().map_err(stopped)
    }

    /// The counter of an eventfd is full only when the thread has 2^64 - 2 wake-ups to see.
    fn wake(&self) {
        let _ = self.wake.write(1);
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Stop);
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

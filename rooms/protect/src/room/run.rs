//! The thread that decides.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use tokio::sync::watch;
use weir_program::{clock, files};

use super::commands::Asked;
use super::intake::Intake;
use super::{Commands, Engine, Outlet, Waker, queue};
use crate::bgp::Speaker;
use crate::detect::Atlas;
use crate::guard::{Announcer, Denied, Now};
use crate::journal::{self, Entry, Writer};
use crate::model::{Board, Command, Counts, Speaking};
use crate::people::words;
use crate::settings::Settings;

/// A running room. Dropping it ends its thread; routes stay or go as the speaker's `on_stop` says.
#[derive(Debug)]
pub struct Room {
    commands: Commands,
    thread: Option<JoinHandle<()>>,
}

/// Who is told what happens: each line of the journal, with the attack that it is about as it stands.
pub type Listener = Box<dyn Fn(&Entry, Option<&crate::model::Attack>) + Send>;

impl Room {
    /// Reads the journal and starts the thread `guard`, with a queue for each shard, which tells it by its outlet.
    ///
    /// # Errors
    /// One line: the journal is none of ours, no thread is to be had.
    pub fn start(
        settings: &Arc<Settings>,
        shards: usize,
        atlas: Option<Box<dyn Atlas>>,
        listener: Option<Listener>,
    ) -> Result<(Self, Vec<Outlet>)> {
        let waker = Arc::<Waker>::default();
        let speaker = settings.speaker.as_ref().map(|speaker| {
            let bell = waker.clone();
            Speaker::start(speaker, move || bell.wake()).context("start the speaker")
        });
        let speaker = speaker.transpose()?.map(|speaker| Box::new(speaker) as Box<dyn Announcer>);
        Self::with(settings, shards, atlas, listener, speaker, waker)
    }

    /// As above, with whoever announces.
    pub(super) fn with(
        settings: &Arc<Settings>,
        shards: usize,
        atlas: Option<Box<dyn Atlas>>,
        listener: Option<Listener>,
        speaker: Option<Box<dyn Announcer>>,
        waker: Arc<Waker>,
    ) -> Result<(Self, Vec<Outlet>)> {
        let now = read_clock();
        let mut engine = Engine::new(settings.clone());
        engine.set_atlas(atlas);
        let known = known(settings)?;
        let writer = match &settings.journal {
            None => None,
            Some(path) => {
                // Only now it is known as whom it is written.
                files::writable(path).with_context(|| format!("journal {}", path.display()))?;
                recall(&mut engine, path);
                Some(Writer::start(path.clone(), journal::MOST).context("start the journal's thread")?)
            }
        };
        let listed = Arc::new(settings.listed());
        let open = |_| {
            let (mut outlet, inlet) = queue(PLACES, &settings.protected(), waker.clone());
            outlet.listen(listed.clone());
            (outlet, inlet)
        };
        let (outlets, inlets) = (0..shards).map(open).unzip();
        let newest = known[known.len().saturating_sub(SHOWN)..].to_vec();
        engine.guard.restore(known, now);
        let board = Arc::new(engine.board(speaker.as_ref().map(|speaker| speaker.speaking()), Counts::default(), now));
        let (show, board) = watch::channel(board);
        let (commands, asked) = Commands::new(waker.clone(), board);
        commands.remember(&newest);
        let run = Run {
            engine,
            intake: Intake::new(inlets),
            asked,
            waker,
            speaker,
            writer,
            listener,
            commands: commands.clone(),
            show,
            shown: 0,
            is_new: true,
            is_switch_lost: false,
            kept: now.nanos,
        };
        let thread = thread::Builder::new().name("guard".into()).spawn(move || run.run()).context("start the guard")?;
        Ok((Self { commands, thread: Some(thread) }, outlets))
    }

    /// What people may ask for and see.
    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    /// Goes over to other settings. Speaker, journal and access stay as they are.
    pub fn adopt(&self, settings: Arc<Settings>, atlas: Option<Box<dyn Atlas>>) {
        self.commands.tell(Asked::Adopt(settings, atlas));
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.commands.tell(Asked::End);
        if let Some(thread) = self.thread.take() {
            // A panic of it has been told.
            let _ = thread.join();
        }
    }
}

/// What the journal tells.
fn known(settings: &Settings) -> Result<Vec<Entry>> {
    let Some(path) = &settings.journal else { return Ok(Vec::new()) };
    let shown = path.display();
    let found = journal::read(path).with_context(|| format!("journal {shown}"))?;
    if let Some((line, why)) = &found.unreadable {
        tracing::warn!("journal {shown}:{line}: {why} (passed over; {} such lines in all)", found.count);
    }
    Ok(found.entries)
}

fn read_clock() -> Now {
    Now { nanos: clock::now(), wall: SystemTime::now() }
}

struct Run {
    engine: Engine,
    intake: Intake,
    asked: Receiver<Asked>,
    waker: Arc<Waker>,
    speaker: Option<Box<dyn Announcer>>,
    writer: Option<Writer>,
    listener: Option<Listener>,
    commands: Commands,
    show: watch::Sender<Arc<Board>>,
    /// When people were last shown how things stand, and whether that has changed since.
    shown: u64,
    is_new: bool,
    /// Whether the journal lacks the last stop or resume.
    is_switch_lost: bool,
    /// When what was learnt was kept last.
    kept: u64,
}

impl Run {
    fn run(mut self) {
        self.waker.listen();
        // What the journal brought back is wanted; nothing else of ours is.
        self.want();
        loop {
            let took = self.intake.take(&mut self.engine);
            let now = read_clock();
            let lag = self.intake.waits().map_or(0, |since| now.nanos.saturating_sub(since));
            self.engine.step(now, now.nanos - lag);
            self.settle(false);
            while let Ok(asked) = self.asked.try_recv() {
                match asked {
                    Asked::Command { command, by, answer } => {
                        // Who asked may have left.
                        let _ = answer.send(self.command(&command, &by));
                    }
                    Asked::Adopt(settings, atlas) => {
                        self.engine.adopt(settings, now);
                        self.engine.set_atlas(atlas);
                        self.settle(false);
                        self.is_new = true;
                    }
                    Asked::End => return self.end(),
                }
            }
            // Later than what was decided meanwhile.
            self.hear(read_clock());
            self.renew(now);
            self.keep(now);
            self.show(now);
            self.intake.tell(now.nanos, lag);
            if took && lag < LATE {
                // What comes meanwhile comes together: shards wake nobody who does not sleep.
                thread::sleep(TOGETHER);
            } else if !took {
                thread::park_timeout(self.engine.rest(now).max(TOGETHER));
            }
        }
    }

    /// Carries out what a person asks; what was done, in a line.
    fn command(&mut self, command: &Command, by: &str) -> Result<String, Denied> {
        let done = self.engine.command(command, by, read_clock());
        let is_kept = self.settle(true);
        done?;
        if matches!(command, Command::Stop | Command::Resume) {
            self.is_switch_lost = !is_kept;
        }
        Ok(noted(if *command == Command::Stop { self.stopped() } else { told(command) }, is_kept))
    }

    /// Has done what was decided: routes first, then lines; whether lines are on the disk, where somebody waits for that.
    fn settle(&mut self, is_awaited: bool) -> bool {
        if self.engine.guard.take_changed() {
            self.want();
        }
        let entries = self.engine.guard.take_entries();
        if entries.is_empty() {
            return true;
        }
        self.is_new = true;
        for entry in &entries {
            tracing::info!("protect: {entry}");
            if let Some(listener) = &self.listener {
                let attack = entry.attack.and_then(|id| self.engine.guard.attack(id));
                listener(entry, attack.as_deref());
            }
        }
        self.commands.remember(&entries);
        // Without a journal nothing is ever announced.
        let Some(writer) = &self.writer else { return true };
        if is_awaited {
            writer.write_now(entries)
        } else {
            writer.append(entries);
            true
        }
    }

    /// Has what is in force written where the journal lacks it.
    fn renew(&self, now: Now) {
        if let Some(writer) = self.writer.as_ref().filter(|writer| writer.is_due()) {
            writer.begin(self.engine.guard.carried(now));
        }
    }

    fn want(&mut self) {
        if let Some(speaker) = &mut self.speaker {
            speaker.want(&self.engine.guard.wanted());
        }
    }

    /// Hears what the speaker has of it.
    fn hear(&mut self, now: Now) {
        let Some(speaker) = &mut self.speaker else { return };
        if !speaker.has_changed() {
            return;
        }
        self.engine.guard.look(&**speaker, now);
        self.settle(false);
        self.is_new = true;
    }

    /// What has come of a stop, in a line, once it is done or should have been: nothing is announced meanwhile, and nobody is in a hurry.
    fn stopped(&mut self) -> String {
        let until = read_clock().nanos + STOPPED_WITHIN;
        let speaking = loop {
            let speaking = self.speaker.as_ref().map(|speaker| speaker.speaking());
            if speaking.as_ref().is_none_or(|speaking| speaking.settled) || read_clock().nanos >= until {
                break speaking;
            }
            thread::sleep(TOGETHER);
        };
        // Whoever looks when he has his answer sees what it says.
        self.publish(speaking.clone(), read_clock());
        match speaking.filter(|speaking| words::is_in_doubt(speaking, true)) {
            None => told(&Command::Stop),
            Some(speaking) => format!(
                "asked; {} (they are withdrawn first when it answers; nothing is announced until it is resumed)",
                words::standing(&speaking, true)
            ),
        }
    }

    /// Has what was learnt written, now and then.
    fn keep(&mut self, now: Now) {
        if now.nanos >= self.kept + KEPT_APART {
            self.kept = now.nanos;
            self.keep_learnt();
        }
    }

    fn keep_learnt(&self) {
        let (Some(writer), Some(learnt)) = (&self.writer, self.engine.learnt()) else { return };
        if let Ok(learnt) = serde_json::to_vec(&learnt) {
            writer.keep(learnt);
        }
    }

    /// Shows people how things stand: soon after a change, and every second.
    fn show(&mut self, now: Now) {
        let since = now.nanos.saturating_sub(self.shown);
        if since < SHOWS_APART || !self.is_new && since < SECOND {
            return;
        }
        let speaking = self.speaker.as_ref().map(|speaker| speaker.speaking());
        self.publish(speaking, now);
    }

    fn publish(&mut self, speaking: Option<Speaking>, now: Now) {
        (self.shown, self.is_new) = (now.nanos, false);
        let [sightings, dropped, unlisted, rivals] = self.intake.totals();
        let unwritten = self.writer.as_ref().map_or(0, Writer::unwritten);
        self.is_switch_lost &= self.writer.as_ref().is_some_and(Writer::is_behind);
        let switch_unwritten = self.is_switch_lost;
        let counts = Counts { sightings, dropped, unlisted, rivals, unwritten, switch_unwritten, ..Counts::default() };
        self.show.send_replace(Arc::new(self.engine.board(speaking, counts, now)));
    }

    fn end(mut self) {
        self.settle(false);
        if let Some(writer) = self.writer.as_ref().filter(|writer| writer.is_behind()) {
            writer.begin(self.engine.guard.carried(read_clock()));
        }
        self.keep_learnt();
        // The journal's thread writes what it has, and the speaker does as it was told.
        drop(self.writer.take());
        drop(self.speaker.take());
    }
}

/// What was done, in a line.
fn told(command: &Command) -> String {
    match command {
        Command::Approve { id } => format!("attack {id}: its routes are announced"),
        Command::Withdraw { id } => {
            format!("attack {id}: its routes are withdrawn; nothing more is done until it is over")
        }
        Command::Extend { id, seconds } => format!("attack {id}: its routes live for {seconds} s from now"),
        Command::Add { prefix, seconds } => {
            format!("{prefix} is blackholed for {seconds} s: `weir protect list` has its number")
        }
        Command::Stop => "everything is withdrawn; nothing is announced until it is resumed".into(),
        Command::Resume => {
            "resumed: mode automatic announces again what attacks ask for, mode manual asks again, what was approved too".into()
        }
    }
}

fn noted(done: String, is_kept: bool) -> String {
    if is_kept {
        return done;
    }
    format!(
        "{done} (it could not be written to the journal: it is tried again, and a restart before then will not know of it)"
    )
}

/// Knows again what was learnt, where that can be read; else it is learnt anew.
fn recall(engine: &mut Engine, journal: &Path) {
    let read = || {
        let learnt = journal::learnt(journal)?;
        anyhow::Ok(learnt.map(|bytes| serde_json::from_slice(&bytes)).transpose()?)
    };
    match read() {
        Ok(Some(learnt)) => engine.recall(learnt),
        Ok(None) => {}
        Err(why) => tracing::warn!("what was learnt, {}.learnt: {why:#} (it is learnt anew)", journal.display()),
    }
}

/// A second.
const SECOND: u64 = 1_000_000_000;

/// Samples that a shard's queue has room for: at a million a second a standstill of 16 ms.
const PLACES: usize = 16_384;

/// Who is behind by so much does not wait until more has come, ns.
const LATE: u64 = 20_000_000;

/// How long what comes is left to come together.
const TOGETHER: Duration = Duration::from_millis(1);

/// From one time that what was learnt is kept to the next.
const KEPT_APART: u64 = 600 * SECOND;

/// How long a stop may take until whoever asked is told that it is not done yet: less than a gobgpd that hangs is given, and than
/// people are.
const STOPPED_WITHIN: u64 = 3 * SECOND / 2;

/// From one picture for people to the next.
const SHOWS_APART: u64 = 100_000_000;

/// Lines of before the start that people can look at.
const SHOWN: usize = 1_000;

//! Writes the state from time to time, on a thread of its own, and at the end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use weir_program::files;

use super::{Restored, restore, write};
use crate::config::Settings;
use crate::shard::{Put, Shards};

/// Writes the file.
#[derive(Debug)]
pub(crate) struct Keeper {
    path: PathBuf,
    /// Definitions as they were written last.
    written: Option<Put>,
    /// When definitions are looked at next, and when it is written even if they are the same.
    due: (Instant, Instant),
    /// The disk may take seconds.
    writing: Option<JoinHandle<(Put, io::Result<()>)>>,
    /// What the last try said: it is told once.
    told: Option<String>,
}

impl Keeper {
    /// Reads the file, if there is one, and knows again what is in it. One that is damaged, foreign or of another version costs a
    /// line in the log and is moved aside; where that cannot be, nothing is kept: `None`.
    pub(crate) fn restore(path: PathBuf, shards: &Shards, settings: &Settings) -> Option<Self> {
        let now = Instant::now();
        let mut keeper =
            Self { path, written: None, due: (now + LOOKS_APART, now + WRITES_APART), writing: None, told: None };
        let shown = keeper.path.display();
        match restore(&keeper.path, shards, settings) {
            Ok(None) => tracing::info!("state {shown}: there is none yet"),
            Ok(Some(Restored { agents, left_out, foreign, refused })) => {
                for refused in refused {
                    tracing::warn!("state {shown}: {refused} (left out)");
                }
                match (foreign, left_out) {
                    (true, _) => {
                        tracing::info!("state {shown}: the machine was started since: definitions without agents");
                    }
                    (_, 0) => tracing::info!("state {shown}: {agents} agents are known again"),
                    _ => tracing::warn!(
                        "state {shown}: {agents} agents are known again, {left_out} are not (`allow` or limits.agents)"
                    ),
                }
                keeper.written = Some(shards.put(settings));
            }
            Err(why) => match aside(&keeper.path) {
                Ok(aside) => {
                    tracing::warn!("state {shown}: {why} (starting without it; it is {} now)", aside.display());
                }
                Err(error) => {
                    tracing::warn!(
                        "state {shown}: {why} (starting without it; nothing is kept, for it cannot be moved aside: {error})"
                    );
                    return None;
                }
            },
        }
        Some(keeper)
    }

    /// Begins to write it if it is due.
    pub(crate) fn look(&mut self, now: Instant, shards: &Arc<Shards>, settings: &Settings) {
        if self.writing.as_ref().is_some_and(JoinHandle::is_finished) {
            self.finish();
        }
        if self.writing.is_some() || now < self.due.0 {
            return;
        }
        self.due.0 = now + LOOKS_APART;
        let put = shards.put(settings);
        if self.written.as_ref() == Some(&put) && now < self.due.1 {
            return;
        }
        self.due.1 = now + WRITES_APART;
        let (path, shards) = (self.path.clone(), shards.clone());
        let writing = thread::Builder::new().name("state".into()).spawn(move || {
            let outcome = write(&path, &shards, &put);
            (put, outcome)
        });
        match writing {
            Ok(writing) => self.writing = Some(writing),
            Err(error) => self.tell(error.to_string()),
        }
    }

    /// Writes it, after which nothing changes any more.
    ///
    /// # Errors
    /// Why it could not be written, in one line; it has not been told.
    pub(crate) fn save(&mut self, shards: &Shards, settings: &Settings) -> anyhow::Result<()> {
        self.finish();
        let put = shards.put(settings);
        write(&self.path, shards, &put)
            .map_err(|error| anyhow!("state {}: {error} (the file of before stays)", self.path.display()))?;
        self.written = Some(put);
        Ok(())
    }

    /// Waits for the thread that writes.
    fn finish(&mut self) {
        let Some(writing) = self.writing.take() else { return };
        match writing.join() {
            Ok((put, outcome)) => self.hear(put, outcome),
            Err(_) => self.tell("writing it failed".into()),
        }
    }

    fn hear(&mut self, put: Put, outcome: io::Result<()>) {
        match outcome {
            Ok(()) => {
                self.written = Some(put);
                self.told = None;
            }
            Err(error) => self.tell(format!("{error} (the file of before stays; tried again)")),
        }
    }

    fn tell(&mut self, said: String) {
        if self.told.as_ref() != Some(&said) {
            tracing::warn!("state {}: {said}", self.path.display());
        }
        self.told = Some(said);
    }
}

/// Gives a file the name `FILE.aside`, which an earlier one loses.
fn aside(path: &Path) -> io::Result<PathBuf> {
    files::ours(&fs::symlink_metadata(path)?)?;
    let aside = files::beside(path, ".aside");
    fs::rename(path, &aside).map(|()| aside)
}

/// From one look at definitions to the next.
const LOOKS_APART: Duration = Duration::from_secs(10);

/// From one writing of agents to the next.
const WRITES_APART: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_ours_are_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        for text in ["first", "second"] {
            fs::write(&path, text).unwrap();
            let to = aside(&path).unwrap();
            assert_eq!((fs::read_to_string(&to).unwrap(), path.exists()), (text.into(), false), "{to:?}");
        }
        // What is no file, and what is somebody else's, stays where it is.
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(aside(&path).unwrap_err().to_string(), "it is not a regular file");
        assert!(files::replace(&path, |_| Ok(())).is_err() && files::read(&path, 1).is_err());
        let other = fs::metadata("/proc/1").unwrap();
        assert!(files::ours(&other).is_err());
        assert_eq!(fs::read_to_string(dir.path().join("state.aside")).unwrap(), "second");
    }
}

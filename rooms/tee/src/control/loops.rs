//! What is news about loops, for the log.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use crate::ledger::{Ledger, LoopCount};
use crate::settings::OnLoop;

/// The loops that have been told of, and whether they were there then.
#[derive(Default)]
pub(super) struct Loops(HashMap<Key, bool>);

type Key = (String, Option<IpAddr>, String, Option<SocketAddr>);

/// A line about a loop.
#[derive(Debug, PartialEq, Eq)]
enum News {
    There(String),
    Gone(String),
}

impl Loops {
    /// Says what has changed since the last look.
    pub(super) fn tell(&mut self, ledger: &Ledger, action: OnLoop) {
        for news in self.news(&ledger.loops, action) {
            match news {
                News::There(line) => tracing::error!("{line}"),
                News::Gone(line) => tracing::info!("{line}"),
            }
        }
    }

    fn news(&mut self, loops: &[LoopCount], action: OnLoop) -> Vec<News> {
        let mut news = Vec::new();
        let now: HashMap<Key, bool> = loops.iter().map(|found| (key(found), found.present)).collect();
        for found in loops {
            let before = self.0.get(&key(found)).copied().unwrap_or(false);
            match (before, found.present) {
                (false, true) => {
                    let done = match action {
                        OnLoop::Stop => "what comes back is dropped there",
                        OnLoop::Off | OnLoop::Warn => "loop = \"stop\" breaks it",
                    };
                    news.push(News::There(format!("{found}: a loop (have the one there not send it here; {done})")));
                }
                (true, false) => news.push(News::Gone(format!("{found}: no more"))),
                _ => {}
            }
        }
        // What is forgotten was gone for long.
        self.0 = now;
        news
    }
}

fn key(found: &LoopCount) -> Key {
    (found.listener.clone(), found.source, found.destination.clone(), found.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_loop_is_told_when_it_comes_and_when_it_goes() {
        let mut told = Loops::default();
        let mut loops = fixture::busy().loops;
        let line = "what goes to siem 10.0.0.5:514 comes back to listener syslog from 10.0.0.5";
        let there =
            |done: &str| vec![News::There(format!("{line}: a loop (have the one there not send it here; {done})"))];
        assert_eq!(told.news(&loops, OnLoop::Warn), there("loop = \"stop\" breaks it"));
        assert_eq!(told.news(&loops, OnLoop::Warn), []);
        loops[0].present = false;
        assert_eq!(told.news(&loops, OnLoop::Warn), [News::Gone(format!("{line}: no more"))]);
        assert_eq!(told.news(&loops, OnLoop::Warn), []);
        loops[0].present = true;
        assert_eq!(told.news(&loops, OnLoop::Stop), there("what comes back is dropped there"));
        assert_eq!(told.news(&[], OnLoop::Stop), []);
    }
}

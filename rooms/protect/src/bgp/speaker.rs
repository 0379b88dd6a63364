//! The thread that speaks to gobgpd, and its handle.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::State;
use super::gobgp::PATIENCE;
use super::session::Driver;
use crate::config::document::OnStop;
use crate::guard::Announcer;
use crate::model::{Installed, Route, Speaking};
use crate::settings;

/// Holds a speaker's table equal to what is wanted, on a thread of its own. Dropped, it ends, and routes stay or go as
/// [`crate::config::document::OnStop`] says.
pub struct Speaker {
    wanted: watch::Sender<Option<Arc<[Route]>>>,
    state: watch::Receiver<Arc<State>>,
    on_stop: OnStop,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Speaker {
    /// Begins. Nothing is changed at gobgpd before the first [`Speaker::want`]; `changed` is called after each change of the
    /// state, on the speaker's thread.
    ///
    /// # Errors
    /// No thread, or no runtime, is to be had.
    pub fn start(settings: &settings::Speaker, changed: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (wanted, hear_wanted) = watch::channel(None);
        let (stop, hear_stop) = watch::channel(false);
        let (tell_state, state) = watch::channel(Arc::new(State::new(settings)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let tell = move |state: &State| {
            tell_state.send_replace(Arc::new(state.clone()));
            changed();
        };
        let driver = Driver::new(settings, hear_wanted, tell);
        let thread = thread::Builder::new().name("speaker".to_owned());
        let thread = thread.spawn(move || runtime.block_on(driver.run(hear_stop)))?;
        Ok(Self { wanted, state, on_stop: settings.on_stop, stop, thread: Some(thread) })
    }

    /// Makes these, and no others, the routes that gobgpd has of us, in the order in which they count where several are for the same
    /// packets. Never waits.
    pub fn want(&self, routes: &[Route]) {
        self.wanted.send_if_modified(|wanted| {
            let is_new = wanted.as_deref() != Some(routes);
            if is_new {
                *wanted = Some(routes.into());
            }
            is_new
        });
    }

    /// What is known of it now.
    pub fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.borrow())
    }
}

impl Announcer for Speaker {
    fn want(&mut self, routes: &[Route]) {
        Self::want(self, routes);
        self.state.mark_changed();
    }

    fn installed(&self, route: &Route) -> Installed {
        self.state().installed(route)
    }

    fn speaking(&self) -> Speaking {
        let (state, wanted) = (self.state(), self.wanted.borrow());
        let is_same = |wanted: &Arc<[Route]>| state.held.as_ref().is_some_and(|held| Arc::ptr_eq(held, wanted));
        let settled = state.speaking.connected && wanted.as_ref().is_some_and(is_same);
        Speaking { settled, ..state.speaking.clone() }
    }

    fn has_changed(&mut self) -> bool {
        let is_new = self.state.has_changed().unwrap_or_default();
        if is_new {
            self.state.mark_unchanged();
        }
        is_new
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        if self.on_stop == OnStop::Withdraw {
            Self::want(self, &[]);
            let until = Instant::now() + PATIENCE;
            while self.speaking().connected && !self.speaking().settled && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
            if !self.speaking().settled {
                let address = &self.state().speaking.address;
                tracing::warn!("gobgpd at {address}: it does not answer, so that routes may stay there");
            }
        }
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic of it was told as it happened.
            drop(thread.join());
        }
    }
}

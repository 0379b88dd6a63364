//! The thread that speaks to gobgpd, and its handle.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::watch;

use super::session::Driver;
use super::{Settings, State};
use crate::model::Route;

/// Holds a speaker's table equal to what is wanted, on a thread of its own. Dropped, it ends, and routes stay or go as
/// [`super::OnStop`] says.
pub struct Speaker {
    wanted: watch::Sender<Option<Arc<[Route]>>>,
    sweep: watch::Sender<()>,
    state: watch::Receiver<Arc<State>>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Speaker {
    /// Begins. Nothing is changed at gobgpd, and no neighbour added, before the first [`Speaker::want`]; `changed` is called
    /// after each change of the state, on the speaker's thread.
    ///
    /// # Errors
    /// No thread, or no runtime, is to be had.
    pub fn start(settings: Settings, changed: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (wanted, hear_wanted) = watch::channel(None);
        let (sweep, hear_sweep) = watch::channel(());
        let (tell_state, state) = watch::channel(Arc::new(State::new(settings.marker())));
        let (stop, hear_stop) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let tell = move |state: &State| {
            tell_state.send_replace(Arc::new(state.clone()));
            changed();
        };
        let driver = Driver::new(settings, hear_wanted, hear_sweep, tell);
        let thread = thread::Builder::new().name("speaker".to_owned());
        let thread = thread.spawn(move || runtime.block_on(driver.run(hear_stop)))?;
        Ok(Self { wanted, sweep, state, stop, thread: Some(thread) })
    }

    /// Makes these, and no others, the routes that gobgpd has of us: all of them each time, in the order in which they count
    /// where several are for the same packets. Costs little when nothing has changed. Never waits.
    pub fn want(&self, routes: Vec<Route>) {
        self.wanted.send_if_modified(|wanted| {
            let is_new = wanted.as_deref() != Some(&routes);
            if is_new {
                *wanted = Some(routes.into());
            }
            is_new
        });
    }

    /// Withdraws what has the number of another Weir, as soon as gobgpd answers. Never waits.
    pub fn sweep(&self) {
        self.sweep.send_replace(());
    }

    /// Whether it has done all that it can of what is wanted now; [`State::standing`] tells what that has come to.
    pub fn is_settled(&self) -> bool {
        let state = self.state();
        let is_same = |wanted: &Arc<[Route]>| state.held.as_ref().is_some_and(|held| Arc::ptr_eq(held, wanted));
        state.is_up() && self.wanted.borrow().as_ref().is_some_and(is_same)
    }

    /// What is known of it now.
    pub fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.borrow())
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic of it was told as it happened.
            drop(thread.join());
        }
    }
}

//! What every long-running room needs: a clock, a configuration, an orderly way to stop and to speak, an account of
//! itself for people, scrapers and the service manager; and [`Service`], which starts all of it in the one right order.
//!
//! ```text
//! one thread   Setup::new     sockets passed by a service manager
//!              (the room)     opens its sockets, with every privilege
//!              Setup::start   the admin address; privileges, user and files given up: they belong to threads
//!                             signals, which no later thread hears -> log
//! threads      (the room)     starts its own, each with a pulse
//!              Service::run   admin, watchdog, screen -> Room::begin -> ready
//!
//! SIGHUP ----> Room::reload, all or nothing      \
//! SIGUSR1 ---> Room::state, its ledger printed    | one after the other, on the control thread;
//! its threads -> Service::events -> Room::hear    | what takes too long, the watchdog sees
//! time ------> Room::look                        /
//! SIGTERM, Ctrl-C, q on the screen, its own end -> not ready -> Room::end -> threads joined -> log written
//!
//! other threads: /metrics, /ledger, /readyz <- Room::state;  /healthz, watchdog <- pulses; links <- the kernel
//! ```
//!
//! A whole service, which ends when its worker has counted three datagrams:
//!
//! ```
//! use std::net::UdpSocket;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
//! use std::thread::{self, JoinHandle};
//! use std::time::{Duration, Instant};
//!
//! use weir_service::metrics::{Family, Kind, Samples};
//! use weir_service::privileges::Needs;
//! use weir_service::{Launch, Observable, Room, Service, Setup};
//!
//! #[derive(Default)]
//! struct Counted(AtomicU64);
//!
//! impl Observable for Counted {
//!     type Ledger = u64;
//!     fn metrics(&self, samples: &mut Samples<'_>) {
//!         samples.single(&RECEIVED, self.ledger());
//!     }
//!     fn ledger(&self) -> u64 {
//!         self.0.load(Relaxed)
//!     }
//!     fn ready(&self) -> Result<(), String> {
//!         Ok(())
//!     }
//! }
//!
//! static RECEIVED: Family = Family {
//!     name: "weir_count_received",
//!     unit: Some("datagrams"),
//!     kind: Kind::Counter,
//!     help: "Datagrams received.",
//!     labels: &[],
//! };
//!
//! struct Counter {
//!     state: Arc<Counted>,
//!     worker: Option<JoinHandle<()>>,
//!     complete: bool,
//! }
//!
//! impl Room for Counter {
//!     type News = bool;
//!     type State = Counted;
//!     const ENDING: &'static str = "waiting for the worker";
//!     fn state(&self) -> Arc<Counted> {
//!         self.state.clone()
//!     }
//!     fn status(&self) -> String {
//!         "1 worker".into()
//!     }
//!     fn begin(&mut self) -> Instant {
//!         Instant::now()
//!     }
//!     fn look(&mut self) -> Option<Instant> {
//!         (!self.complete).then(|| Instant::now() + Duration::from_millis(10))
//!     }
//!     fn hear(&mut self, complete: bool) {
//!         self.complete = complete;
//!     }
//!     fn end(&mut self) {
//!         self.worker.take().map(JoinHandle::join);
//!     }
//! }
//!
//! # fn main() -> anyhow::Result<()> {
//! let setup = Setup::new(Launch::default())?;
//! let socket = UdpSocket::bind("127.0.0.1:0")?;
//! (0..3).try_for_each(|_| socket.send_to(b"datagram", socket.local_addr()?).map(drop))?;
//!
//! let service: Service<Counter> = setup.start(Needs::default())?;
//! let (state, pulse, control) = (Arc::new(Counted::default()), service.pulse("worker"), service.events());
//! let counted = state.clone();
//! let worker = thread::spawn(move || {
//!     while counted.0.load(Relaxed) < 3 {
//!         pulse.wait();
//!         let received = socket.recv(&mut [0; 100]).is_ok();
//!         pulse.work();
//!         counted.0.fetch_add(received.into(), Relaxed);
//!     }
//!     control.try_tell(true);
//! });
//! let mut counter = Counter { state, worker: Some(worker), complete: false };
//! service.run(&mut counter)?;
//! assert_eq!(counter.state.ledger(), 3);
//! # Ok(())
//! # }
//! ```

mod activation;
pub mod admin;
mod events;
pub mod http;
pub mod links;
pub mod listening;
pub mod log;
pub mod losses;
pub mod metrics;
pub mod names;
mod notify;
pub mod privileges;
mod process;
mod reloads;
mod room;
pub mod screen;
mod service;
mod setup;
mod token;

pub use events::EventSender;
pub use room::{Observable, Room};
pub use service::{Service, stays};
pub use setup::{Fixed, Launch, Setup};
pub use weir_program::Target;

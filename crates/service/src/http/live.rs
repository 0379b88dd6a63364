//! WebSockets of pages: bounded in number; a client that says nothing for 30 s, takes nothing for 10 s, or says what cannot be
//! understood is ended, and counted.

use std::error::Error;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::IntoResponse;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};

use super::call::Call;
use super::places::{Place, Places};
use super::problem::Answer;

/// Those of one path, and what became of them.
#[derive(Debug)]
pub struct Sockets {
    places: Places,
    clients: AtomicU64,
    refused: AtomicU64,
    stuck: AtomicU64,
    silent: AtomicU64,
    mistaken: AtomicU64,
}

/// One client.
#[derive(Debug)]
pub struct Socket {
    socket: WebSocket,
    all: Arc<Sockets>,
    heard: Instant,
    seconds: Interval,
    _place: Place,
}

/// What there is to do.
#[derive(Debug)]
pub enum Said {
    /// The client has said this.
    Text(Utf8Bytes),
    /// A second is over.
    Second,
}

/// Why it ends.
#[derive(Debug)]
pub enum End {
    /// The client has gone, or the server goes.
    Gone,
    /// It took nothing.
    Stuck,
    /// Nothing was heard of it.
    Silent,
    /// What it said cannot be understood, since ...
    Mistaken(String),
}

impl Sockets {
    /// So many at once; `what` they do stands in refusals: `follow signals`.
    pub fn new(most: usize, what: &'static str) -> Arc<Self> {
        let [clients, refused, stuck, silent, mistaken] = Default::default();
        Arc::new(Self { places: Places::new(most, what), clients, refused, stuck, silent, mistaken })
    }

    /// Those that are open now.
    pub fn open(&self) -> usize {
        self.places.taken()
    }

    /// What is counted of them, by name.
    pub fn figures(&self) -> [(&'static str, u64); 6] {
        let read = |count: &AtomicU64| count.load(Relaxed);
        [
            ("clients_now", self.open() as u64),
            ("clients", read(&self.clients)),
            ("refused_full", read(&self.refused)),
            ("ended_stuck", read(&self.stuck)),
            ("ended_silent", read(&self.silent)),
            ("ended_mistaken", read(&self.mistaken)),
        ]
    }

    /// Answers a call with a WebSocket, which `follow` serves, as a task of its own.
    ///
    /// # Errors
    /// 503, if there are too many.
    pub async fn upgrade<F>(
        self: &Arc<Self>,
        mut call: Call,
        follow: impl FnOnce(Socket) -> F + Send + 'static,
    ) -> Answer
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let place = self.places.take().inspect_err(|_| _ = self.refused.fetch_add(1, Relaxed))?;
        let all = self.clone();
        Ok(match WebSocketUpgrade::from_request_parts(&mut call.parts, &()).await {
            Ok(upgrade) => upgrade.max_message_size(LONGEST).max_frame_size(LONGEST).on_upgrade(move |socket| {
                all.clients.fetch_add(1, Relaxed);
                let mut seconds = interval(Duration::from_secs(1));
                seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
                follow(Socket { socket, all, heard: Instant::now(), seconds, _place: place })
            }),
            Err(refused) => refused.into_response(),
        })
    }
}

impl Socket {
    /// Waits for what the client says, or for the next second, in which the client is asked whether it lives: a browser answers by
    /// itself. Nothing is lost where this is dropped.
    ///
    /// # Errors
    /// Why it ends.
    pub async fn next(&mut self) -> Result<Said, End> {
        loop {
            tokio::select! {
                biased;
                message = self.socket.recv() => {
                    self.heard = Instant::now();
                    match message {
                        Some(Ok(Message::Text(text))) => return Ok(Said::Text(text)),
                        Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                        Some(Ok(Message::Binary(_))) => return Err(End::Mistaken("it is binary".to_owned())),
                        Some(Ok(Message::Close(_))) | None => return Err(End::Gone),
                        Some(Err(error)) => return Err(ended(&error)),
                    }
                }
                _ = self.seconds.tick() => {
                    if self.heard.elapsed() > SILENCE {
                        return Err(End::Silent);
                    }
                    self.send(Message::Ping(Default::default())).await?;
                    return Ok(Said::Second);
                }
            }
        }
    }

    /// Sends a message; the next one is to be made only then.
    ///
    /// # Errors
    /// Why it ends.
    pub async fn send(&mut self, message: Message) -> Result<(), End> {
        match timeout(PATIENCE, self.socket.send(message)).await {
            Ok(sent) => sent.map_err(|error| ended(&error)),
            Err(_) => Err(End::Stuck),
        }
    }

    /// Ends it, and says why.
    pub async fn end(mut self, end: End) {
        let (count, code, reason) = match end {
            End::Gone => return,
            End::Stuck => {
                self.all.stuck.fetch_add(1, Relaxed);
                return;
            }
            End::Silent => (&self.all.silent, close_code::AWAY, "nothing was heard of you".to_owned()),
            End::Mistaken(why) => (&self.all.mistaken, close_code::POLICY, format!("this cannot be understood: {why}")),
        };
        count.fetch_add(1, Relaxed);
        // A reason has at most 123 bytes.
        let reason = Utf8Bytes::from(&reason[..reason.floor_char_boundary(120)]);
        let _ = self.send(Message::Close(Some(CloseFrame { code, reason }))).await;
    }
}

/// What an error says of the client: that it takes nothing (the kernel's word, TCP_USER_TIMEOUT), has gone, or sends what is no
/// WebSocket's.
fn ended(error: &axum::Error) -> End {
    let mut causes = std::iter::successors(Some(error as &(dyn Error + 'static)), |&error| error.source());
    match causes.find_map(|cause| cause.downcast_ref::<io::Error>()) {
        Some(error) if error.kind() == io::ErrorKind::TimedOut => End::Stuck,
        Some(_) => End::Gone,
        None if error.to_string().contains(RESET) => End::Gone,
        None => End::Mistaken(error.to_string()),
    }
}

/// In what the library says of a client that goes without a word.
const RESET: &str = "without closing handshake";

/// Bytes of what a client says at once.
const LONGEST: usize = 64 * 1024;

/// How long a client may take nothing of what is sent: tabs that sleep wake within.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long nothing may be heard of a client that is asked every second.
const SILENCE: Duration = Duration::from_secs(30);

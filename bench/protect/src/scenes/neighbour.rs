//! A BGP neighbour that knows as much as it takes to count the routes that it is told (RFC 4271), and nothing else.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use anyhow::Result;

/// Where it listens, and its AS.
pub(super) const ADDRESS: &str = "127.0.0.2";
pub(super) const ASN: u16 = 65_002;

/// Waits for a session on a thread of its own; each time it hears something of routes, how many there are: at first 0.
pub(super) fn start() -> Result<Receiver<(Instant, u32)>> {
    let listener = TcpListener::bind((ADDRESS, 179))?;
    let (tell, counts) = channel();
    thread::Builder::new().name("neighbour".to_owned()).spawn(move || {
        // Broken off, it waits for the next one.
        for stream in listener.incoming().flatten() {
            if speak(stream, &tell).is_none() {
                return;
            }
        }
    })?;
    Ok(counts)
}

/// A session; `None`: nobody listens any more.
fn speak(mut stream: TcpStream, tell: &Sender<(Instant, u32)>) -> Option<()> {
    let mut routes = HashSet::new();
    while let Some((kind, body)) = message(&mut stream) {
        let answered = match kind {
            OPEN => {
                // Version 4, a hold time of 90 s, and no word of what else it can: IPv4 unicast is what is left.
                let [high, low] = ASN.to_be_bytes();
                let open = [4, high, low, 0, 90, 127, 0, 0, 2, 0];
                send(&mut stream, OPEN, &open).and_then(|()| send(&mut stream, KEEPALIVE, &[]))
            }
            KEEPALIVE => {
                if routes.is_empty() {
                    tell.send((Instant::now(), 0)).ok()?;
                }
                send(&mut stream, KEEPALIVE, &[])
            }
            UPDATE => {
                enter(&mut routes, &body);
                tell.send((Instant::now(), routes.len() as u32)).ok()?;
                Some(())
            }
            _ => None,
        };
        if answered.is_none() {
            return Some(());
        }
    }
    Some(())
}

/// Enters what is withdrawn and announced: host routes alone.
fn enter(routes: &mut HashSet<[u8; 4]>, body: &[u8]) -> Option<()> {
    let (withdrawn, rest) = part(body)?;
    let (_, announced) = part(rest)?;
    let hosts =
        |bytes: &[u8]| bytes.chunks_exact(5).filter_map(|host| host[1..].try_into().ok()).collect::<Vec<[u8; 4]>>();
    for host in hosts(withdrawn) {
        routes.remove(&host);
    }
    routes.extend(hosts(announced));
    Some(())
}

/// What a length of two bytes stands before, and what comes behind.
fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_be_bytes(*length).into())
}

fn message(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).ok()?;
    let length = usize::from(u16::from_be_bytes([head[16], head[17]]));
    let mut body = vec![0; length.checked_sub(HEAD)?];
    stream.read_exact(&mut body).ok()?;
    Some((head[18], body))
}

fn send(stream: &mut TcpStream, kind: u8, body: &[u8]) -> Option<()> {
    let length = u16::try_from(HEAD + body.len()).ok()?.to_be_bytes();
    let message = [&[0xff; 16][..], &length, &[kind], body].concat();
    stream.write_all(&message).ok()
}

const HEAD: usize = 19;
const OPEN: u8 = 1;
const UPDATE: u8 = 2;
const KEEPALIVE: u8 = 4;

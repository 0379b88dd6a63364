//! What the peers do, by the engine.

use std::io::{ErrorKind, IoSlice};
use std::num::NonZeroU16;

use anyhow::{Result, ensure};
use weir_dgram::{Inbox, Options, Outgoing, Socket};

use crate::Mode;
use crate::measure::{Costs, Sum, costs};

pub(crate) fn run(mode: Mode, payload: usize, bursts: usize, burst: usize) -> Result<Costs> {
    let receiving = Options { receive_buffer: Some(32 << 20), gro: mode == Mode::Runs, ..Options::default() };
    let receiver = Socket::bind("127.0.0.1:0".parse()?, &receiving)?;
    let sending = Options { gso: mode == Mode::Runs, ..Options::default() };
    let sender = Socket::connect(None, receiver.local_addr(), &sending)?;
    let (batch, run, mut inbox) = match mode {
        Mode::Plain => (1, 1, Inbox::new(1, 65_535)),
        Mode::Batched => (64, 1, Inbox::new(64, 65_535)),
        Mode::Runs => (1, (65_000 / payload).min(64), Inbox::new(16, 65_535)),
    };
    let bytes = vec![0; run * payload];
    let pieces = [IoSlice::new(&bytes)];
    let segment = NonZeroU16::new(payload as u16).filter(|_| mode == Mode::Runs);
    let messages = vec![Outgoing { pieces: &pieces, segment, to: None }; batch];
    let (mut send, mut receive) = (Sum::default(), Sum::default());
    for number in 0..bursts {
        let counts = number >= bursts / 10;
        send.add(counts, || {
            let mut sent = 0;
            while sent < burst {
                let taken = sender.send(&messages);
                ensure!(taken.messages == batch, "{taken:?}");
                sent += batch * run;
            }
            Ok(sent as u64)
        })?;
        receive.add(counts, || {
            let mut received = 0;
            loop {
                match inbox.receive(&receiver) {
                    Ok(_) => received += inbox.messages().map(|message| message.datagrams()).sum::<usize>(),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(received as u64),
                    Err(error) => return Err(error.into()),
                }
            }
        })?;
    }
    Ok(costs(&send, &receive))
}

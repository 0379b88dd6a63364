use weir_units::{Frequency, Size, Span};

use super::*;

fn load(rate: u64, payload: u64, stall_ms: u64) -> Load {
    Load {
        rate: Frequency { micro_hertz: rate * 1_000_000 },
        payload: Size { bytes: payload },
        stall: Span::from_millis(stall_ms),
    }
}

#[test]
fn a_datagram_weighs_more_than_its_payload() {
    let link = Link::make(1500).unwrap();
    let small = truesize(&link, 64).unwrap();
    let large = truesize(&link, 1400).unwrap();
    assert!(small.bytes >= 64 + 28 && small.bytes < 4096, "{small:?}");
    assert!(large.bytes > small.bytes, "{large:?}");
}

#[test]
fn what_a_trial_loses_is_named_and_a_buffer_that_is_large_enough_loses_nothing() {
    let link = Link::make(1500).unwrap();
    let load = load(20_000, 64, 50);
    let truesize = truesize(&link, 64).unwrap().bytes;
    let small = run(&link, &load, Buffer::Exactly(32 * truesize), 20_000).unwrap();
    assert_eq!((small.sent, small.unexplained), (20_000, 0), "{small:?}");
    // The longest stall alone fills it thirty times.
    assert!(small.lost_at(Place::ReceiveBuffer) > 500, "{small:?}");
    assert_eq!(small.lost(), small.places.iter().map(|lost| lost.datagrams).sum::<u64>());
    // Twice the need: the machine may hold the receiver up as long again. Where it does so for longer, that may cost some.
    let enough = run(&link, &load, Buffer::Exactly(load.need(truesize).buffer * 2), 20_000).unwrap();
    assert_eq!((enough.sent, enough.unexplained), (20_000, 0), "{enough:?}");
    assert!(enough.longest_stall_ms >= 50.0 && enough.rate > 1000.0, "{enough:?}");
    let excused = if enough.longest_stall_ms > 100.0 { enough.lost_at(Place::ReceiveBuffer) } else { 0 };
    assert_eq!(enough.lost(), excused, "{enough:?}");
}

#[test]
fn what_was_held_up_is_tried_again() {
    let link = Link::make(1500).unwrap();
    let some = run(&link, &load(10_000, 64, 1), Buffer::Default, 10).unwrap();
    let of = |held_up: &[Option<f64>]| {
        let mut held_up = held_up.iter();
        let tried = undisturbed(|| Ok(Outcome { held_up_ms: *held_up.next().unwrap(), tries: 1, ..some.clone() }));
        let tried = tried.unwrap();
        assert_eq!(held_up.next(), None);
        (tried.held_up_ms, tried.tries)
    };
    assert_eq!(of(&[None]), (None, 1));
    assert_eq!(of(&[Some(300.0), None]), (None, 2));
    assert_eq!(of(&[Some(20.0), Some(300.0), Some(11.0)]), (Some(11.0), 3));
    assert_eq!(of(&[Some(20.0), Some(11.0), Some(300.0)]), (Some(11.0), 3));
}

//! What a user gets wrong is told in one line that says what to do.

use std::net::UdpSocket;
use std::os::unix::process::CommandExt;

use weir_testbed::{Ended, skip};

use super::{File, run, weir};

/// The one line of a command that must fail.
#[track_caller]
fn line(ended: &Ended, status: i32) -> String {
    assert_eq!((ended.status, &*ended.stdout), (Some(status), ""), "{ended:?}");
    let text = ended.stderr.trim_end();
    assert!(text.lines().count() == 1 && text.starts_with("weir: "), "{ended:?}");
    text["weir: ".len()..].to_owned()
}

const GOOD: &str = "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nname = \"sink\"\nto = \"127.0.0.1:9\"\n";

#[test]
fn help_shows_every_flag() {
    let Ended { status, stdout, stderr } = run(&["--help"]);
    assert_eq!((status, &*stderr), (Some(0), ""));
    insta::assert_snapshot!("help_tee", stdout);
}

#[test]
fn check_prints_what_is_in_force() {
    let file = File::new(&format!("workers = 2\n{GOOD}[[rule]]\nto = \"sink\"\n[[rule]]\nname = \"never\"\nto = []\n"));
    let Ended { status, stdout, stderr } = run(&["-c", &file.argument(), "--check", "--admin", "127.0.0.1:9514"]);
    assert_eq!(status, Some(0));
    assert_eq!(
        stderr,
        format!(
            "weir: {}:3: listener `127.0.0.1:0`: port 0 is another port at each start (the log says which)\n",
            file.argument()
        )
    );
    insta::assert_snapshot!("check_tee", stdout);
    // What it prints is a file that says the same.
    let again = File::new(&stdout);
    assert_eq!(run(&["-c", &again.argument(), "--check"]).stdout, stdout);
}

#[test]
fn flags_are_checked_as_a_file_is() {
    let listen = |address| ["--listen", address, "--to", "10.0.0.5:514", "--workers", "1", "--check"];
    let Ended { status, stdout, stderr } = run(&listen("239.1.1.1:5000"));
    assert_eq!((status, &*stderr), (Some(0), ""));
    insta::assert_snapshot!("check_flags_tee", stdout);
}

#[test]
fn a_mistake_is_a_line_and_status_2() {
    for (from, to, message) in [
        ("[[destination]]", "[[destinations]]", ":3: unknown key `destinations`, did you mean `destination`?"),
        ("[[listener]]", "user = \"nobdy\"\n[[listener]]", ":1: user: look up user nobdy: no such user (create it, "),
        ("to = ", "too = ", ":5: unknown key `too`, did you mean `to`?"),
        ("127.0.0.1:9", "127.0.0.1", ":5: destination.to: `127.0.0.1`: write HOST:PORT, e.g. "),
        ("\"sink\"", "\"sink\"\nttl = 0", ":5: destination.ttl: 0 (it must be 1 to 255)"),
        (
            "127.0.0.1:0",
            "0.0.0.0:9",
            ": destination `sink`: 127.0.0.1:9 comes in again at listener `0.0.0.0:9`: a loop",
        ),
        ("\"sink\"", "\"sink\"\ninterface = \"nosuch0\"", ":5: destination: interface: this machine has no `nosuch0`"),
        ("[[listener]]", "[[listener", ":1: "),
    ] {
        assert_eq!(GOOD.matches(from).count(), 1, "{from}");
        let file = File::new(&GOOD.replace(from, to));
        for check in [&["--check"][..], &[]] {
            let line = line(&run(&[&["-c", &file.argument()][..], check].concat()), 2);
            assert!(line.starts_with(&file.argument()) && line.contains(message), "{line}");
        }
    }
    let twice = "[[listener]]\naddress = \"127.0.0.1:5\"\n";
    let file = File::new(&format!("{twice}{twice}{GOOD}"));
    let expected = format!(
        "{}:4: listener 127.0.0.1:5: `127.0.0.1:5` listens there already (remove one of them)",
        file.argument()
    );
    assert_eq!(line(&run(&["-c", &file.argument()]), 2), expected);
    let missing = line(&run(&["-c", "/nonexistent/tee.toml"]), 2);
    assert_eq!(missing, "read /nonexistent/tee.toml: No such file or directory (os error 2)");
}

#[test]
fn a_mistake_in_a_flag_is_status_2() {
    for (arguments, message) in [
        (&["--listen", "127.0.0.1:0"][..], "--to <HOST:PORT>"),
        (&["--to", "10.0.0.5:514"], "--listen <ADDR:PORT>"),
        (&[], "--config <FILE>"),
        (&["--listen", "here", "--to", "10.0.0.5:514"], "`here`: write ADDRESS:PORT"),
        (&["--listen", "127.0.0.1:0", "--to", "there"], "`there`: write HOST:PORT"),
        (
            &["--listen", "127.0.0.1:0", "--to", "10.0.0.5:514", "--source", "mine"],
            "[possible values: own, kept, proxy]",
        ),
        (&["-c", "x", "--listen", "127.0.0.1:0", "--to", "10.0.0.5:514"], "cannot be used with"),
        (&["--listen", "127.0.0.1:0", "--to", "10.0.0.5:0"], "to: port 0 is nobody's"),
        (&["--listen", "127.0.0.1:7", "--listen", "127.0.0.1:7", "--to", "10.0.0.5:1"], "listens there already"),
        (&["--listen", "0.0.0.0:7", "--to", "localhost:8", "--to", "127.0.0.1:7"], "a loop (send elsewhere)"),
        (
            &["--listen", "0.0.0.0:7", "--to", "10.0.0.5:1", "--user", "nobdy"],
            "look up user nobdy: no such user (create it",
        ),
        (&["--listen", "0.0.0.0:7", "--to", "10.0.0.5:1", "--workers", "0"], "0 (it must be 1 to 256)"),
        (&["--listen", "0.0.0.0:7", "--to", "10.0.0.5:1", "--interface", "eth0"], "there is no multicast group among"),
    ] {
        let Ended { status, stdout, stderr } = run(arguments);
        assert_eq!((status, &*stdout), (Some(2), ""), "{arguments:?}");
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
    }
}

#[test]
fn what_the_kernel_refuses_is_a_line_and_status_1() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let refused = |listen: &str| line(&run(&["--listen", listen, "--to", "10.0.0.5:514"]), 1);
    let line = refused(&taken);
    assert!(line.contains(&taken) && line.contains("in use"), "{line}");
    let line = refused("192.0.2.77:5000");
    assert!(line.contains("192.0.2.77:5000"), "{line}");
}

#[test]
fn a_kept_source_without_the_right_names_it() {
    let arguments = ["--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--source", "kept"];
    let mut command = weir(&arguments);
    // As an ordinary user: whoever runs the tests may be one already.
    if nix::unistd::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let Ok(output) = command.output() else {
        return skip("another user may not run the program");
    };
    let line = line(&output.into(), 1);
    assert!(line.contains("CAP_NET_RAW") && line.contains("source = \"proxy\""), "{line}");
}

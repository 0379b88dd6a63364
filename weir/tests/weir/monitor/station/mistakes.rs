//! Mistakes are one line with what to do.

use super::*;

#[track_caller]
fn mistake(arguments: &[&str]) -> (i32, String) {
    let ended = Ended::of(&mut weir(&[&["monitor", "station"], arguments].concat()));
    (ended.status.unwrap(), ended.stderr)
}

#[test]
fn mistakes_are_one_line() {
    for (arguments, code, words) in [
        (&["--to", "group"][..], 2, "`group`: write ADDRESS or ADDRESS:PORT"),
        (&["--source", "sine,rate=1k/s"], 2, "missing key `name`"),
        (&["--source", "sine,name=a,rate=1kHz"], 2, "no unit `kHz` for a frequency"),
        (&["--interface", "nowhere0"], 1, "find the interface nowhere0"),
        (&["--source", "tail,path=/nowhere"], 1, "follow /nowhere: No such file"),
        (&["--source", "wav,name=a,path=/nowhere.wav"], 2, "wav is gone: sox FILE -t f32 - | weir monitor station"),
        (&["--source", "stdin,format=raw"], 2, "names: nothing says what the values are called"),
    ] {
        let (status, text) = mistake(arguments);
        assert_eq!(status, code, "{text}");
        assert!(text.contains(words), "{text}");
        assert!(code == 2 || text.lines().count() == 1, "{text}");
    }
}

#[test]
fn keys_are_made_once_and_refused_where_others_may_read_them() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("monitor.key");
    let make = || weir(&["monitor", "key", "--group", "--out", path.to_str().unwrap()]).output().unwrap();
    assert!(make().status.success());
    assert!(!make().status.success(), "it would have been overwritten");
    let file = folder.path().join("station.toml");
    std::fs::write(&file, format!("encrypt = {path:?}\n")).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let (status, text) = mistake(&["-c", file.to_str().unwrap()]);
    assert_eq!((status, text.lines().count()), (2, 1), "{text}");
    let place = format!("weir: {}:1: encrypt: key {}: ", file.display(), path.display());
    assert!(text.starts_with(&place) && text.contains("others may read it (chmod 600 "), "{text}");
    // What is no secret may be read by others: it is only the wrong one.
    let (own, public) = (folder.path().join("own.key"), folder.path().join("own.pub"));
    assert!(weir(&["monitor", "key", "--out", own.to_str().unwrap()]).output().unwrap().status.success());
    std::fs::write(&file, format!("sign = {public:?}\n")).unwrap();
    let (status, text) = mistake(&["-c", file.to_str().unwrap()]);
    assert!(status == 2 && text.contains("it is a `weir-signal-public-key`") && !text.contains("chmod"), "{text}");
}

/// By whatever key of the file it is named, a file of another kind is found without a start.
#[test]
fn check_reads_every_file_of_keys() {
    let folder = tempfile::TempDir::new().unwrap();
    let (wrong, file) = (folder.path().join("wrong.key"), folder.path().join("room.toml"));
    std::fs::write(&wrong, "weir-signal-group-key 5f\n").unwrap();
    std::fs::set_permissions(&wrong, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    for (room, text) in [
        ("station", "encrypt = FILE"),
        ("station", "sign = FILE"),
        ("serve", "key = FILE"),
        ("serve", "senders = [FILE]"),
        ("serve", "[publish]\nsign = FILE"),
        ("record", "key = FILE"),
        ("record", "senders = [FILE]"),
    ] {
        for (path, words) in [(wrong.to_str().unwrap(), "64 hexadecimal digits"), ("/nowhere.key", "No such file")] {
            std::fs::write(&file, text.replace("FILE", &format!("{path:?}"))).unwrap();
            let Ended { status, stderr: said, .. } =
                Ended::of(&mut weir(&["monitor", room, "-c", file.to_str().unwrap(), "--check"]));
            assert_eq!(status, Some(2), "{room}, {text}: {said}");
            let table = if text.contains("[publish]") { "publish." } else { "" };
            let (line, last) = text.lines().enumerate().last().unwrap();
            let key = format!("{table}{}", last.split(' ').next().unwrap());
            let place = format!("weir: {}:{}: {key}: key {path}: ", file.display(), line + 1);
            assert!(said.starts_with(&place) && said.contains(words), "{room}, {text}: {said}");
        }
    }
}

/// What a start would fail for is found without one, with its place.
#[test]
fn check_finds_what_is_not_there() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("room.toml");
    let listen = "[[listen]]\naddress = \"239.1.1.1:7\"\ninterface = \"nowhere0\"";
    let (interface, address) = ("there is no interface nowhere0 here", "192.0.2.1:7 is no address of this machine");
    for (room, text, words) in [
        ("station", "interface = \"nowhere0\"", format!("1: interface: {interface}")),
        (
            "station",
            "full_to = \"239.1.1.1\"\nfull_interface = [\"nowhere0\"]",
            format!("2: full_interface: {interface}"),
        ),
        (
            "station",
            "[[source]]\nkind = \"tail\"\npath = \"/nowhere\"",
            "3: source.path: follow /nowhere: No such file".into(),
        ),
        (
            "station",
            "[[source]]\nkind = \"ring\"\npath = \"/nowhere\"",
            "2: source.kind: ring is gone: write its frames to a pipe: kind = \"stdin\", format = \"raw\"".into(),
        ),
        ("station", "servers = []", "1: servers is gone: stations take no requests, remove it".into()),
        (
            "station",
            "[[source]]\nkind = \"udp\"\nformat = \"influx\"\nlisten = \"192.0.2.1:7\"",
            format!("4: source.listen: {address}"),
        ),
        ("station", "admin = \"192.0.2.1:7\"", format!("1: admin: {address}")),
        ("serve", "http = \"192.0.2.1:7\"", format!("1: http: {address}")),
        ("serve", "[[listen]]\naddress = \"192.0.2.1:7\"", format!("2: listen.address: {address}")),
        ("serve", listen, format!("3: listen.interface: {interface}")),
        ("serve", "[publish]\ninterface = \"nowhere0\"", format!("2: publish.interface: {interface}")),
        ("record", listen, format!("3: listen.interface: {interface}")),
        ("record", "directory = \"/nowhere\"", "1: directory: /nowhere: No such file".into()),
        (
            "record",
            "directory = \"/\"\nuser = \"4000001:4000001\"",
            "1: directory: /: user 4000001:4000001 cannot make files in it".into(),
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let Ended { status, stderr: said, .. } =
            Ended::of(&mut weir(&["monitor", room, "-c", file.to_str().unwrap(), "--check"]));
        assert_eq!((status, said.lines().count()), (Some(2), 1), "{room}, {text}: {said}");
        assert!(said.starts_with(&format!("weir: {}:{words}", file.display())), "{room}, {text}: {said}");
    }
}

//! The static binary and the container around it.

use std::fs;
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::geteuid;
use weir_testbed::{Ended, PATIENCE, Started, await_that, http, network, program, skip};

use super::{assert_flags_exist, ports, read};

/// What `make dist` made; `make test-long` makes it before.
fn dist() -> Option<PathBuf> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist");
    let there = dist.join("weir").exists();
    if !there {
        skip("needs dist/weir (make dist)");
    }
    there.then_some(dist)
}

#[test]
fn the_container_runs_the_program_as_it_is() {
    let file = read("container/Containerfile");
    let instruction = |name: &str| {
        let all: Vec<&str> = file.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).collect();
        assert_eq!(all.len(), 1, "{name}: {all:?}");
        all[0].to_owned()
    };
    assert_eq!(instruction("FROM"), "scratch");
    assert_eq!(serde_json::from_str::<Vec<String>>(&instruction("ENTRYPOINT")).unwrap(), ["/weir"]);
    let command: Vec<String> = serde_json::from_str(&instruction("CMD")).unwrap();
    assert_flags_exist(&command.iter().map(String::as_str).collect::<Vec<_>>());
    let (listener, admin) = ports(&read("container/tee.toml"));
    assert_eq!(instruction("EXPOSE"), format!("{listener}/udp {admin}/tcp"));
    assert!(!instruction("USER").starts_with('0'));
    assert!(file.contains(&format!("COPY tee.toml {}\n", command.last().unwrap())));
}

/// What is in the binary is named beside it, with the text of its licence.
#[test]
#[ignore = "long: the static binary"]
fn what_is_passed_on_names_the_work_of_others() {
    let Some(dist) = dist() else { return };
    let notices = fs::read_to_string(dist.join("THIRD-PARTY.txt")).unwrap();
    let bill: serde_json::Value = serde_json::from_slice(&fs::read(dist.join("weir.cdx.json")).unwrap()).unwrap();
    let parts: Vec<&str> =
        bill["components"].as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect();
    for name in ["tokio", "ring", "weir-tee"] {
        assert!(parts.contains(&name), "{name} is in the binary");
        let is_theirs = !name.starts_with("weir");
        assert_eq!(notices.lines().any(|line| line.starts_with(&format!("{name} "))), is_theirs, "{name}");
    }
    assert!(!parts.contains(&"proptest"), "tests are not in the binary");
    assert!(notices.contains("Permission is hereby granted, free of charge"), "the text of MIT");
}

/// Nothing is there: no libraries, no /etc, no /proc.
#[test]
#[ignore = "long: the static binary"]
fn the_static_binary_runs_in_an_empty_root() {
    let Some(dist) = dist() else { return };
    let root = tempfile::tempdir().unwrap();
    fs::copy(dist.join("weir"), root.path().join("weir")).unwrap();
    fs::write(root.path().join("tee.toml"), read("container/tee.toml")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = if geteuid().is_root() { Command::new("chroot") } else { Command::new("unshare") };
        if !geteuid().is_root() {
            command.args(["--map-root-user", "chroot"]);
        }
        command.arg(root.path()).arg("/weir").args(arguments).output().unwrap()
    };
    let version = run(&["--version"]);
    assert_eq!(String::from_utf8(version.stdout).unwrap(), concat!("weir ", env!("CARGO_PKG_VERSION"), "\n"));
    let check = run(&["tee", "-c", "/tee.toml", "--check"]);
    assert!(check.status.success(), "{check:?}");

    // The checksum is that of the file beside it.
    let sums = Command::new("sha256sum").args(["--check", "weir.sha256"]).current_dir(&dist).output().unwrap();
    assert!(sums.status.success(), "{sums:?}");
}

/// An image built and a container run by buildah, without a daemon and without the network.
struct Buildah {
    program: PathBuf,
    storage: tempfile::TempDir,
}

impl Buildah {
    fn new(program: PathBuf) -> Self {
        let storage = tempfile::tempdir().unwrap();
        // Nothing is fetched: no signature to check.
        fs::write(storage.path().join("policy.json"), r#"{"default": [{"type": "insecureAcceptAnything"}]}"#).unwrap();
        Self { program, storage }
    }

    fn policy(&self) -> String {
        format!("--signature-policy={}", self.storage.path().join("policy.json").display())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--storage-driver", "vfs", "--root"]).arg(self.storage.path().join("root"));
        command.arg("--runroot").arg(self.storage.path().join("run")).args(arguments).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> String {
        let Ended { status, stdout, stderr } = Ended::of(&mut self.command(arguments));
        assert_eq!(status, Some(0), "buildah {arguments:?}: {stderr}");
        stdout
    }
}

impl Drop for Buildah {
    fn drop(&mut self) {
        // Lets go of mounts below the directory, which goes next.
        let _ = self.command(&["rm", "--all"]).output();
        let _ = self.command(&["rmi", "--all", "--force"]).output();
    }
}

#[test]
#[ignore = "long: a container"]
fn the_image_is_built_from_scratch_and_copies_datagrams() {
    let Some(dist) = dist() else { return };
    let Some(buildah) = program("buildah") else { return };
    if !geteuid().is_root() {
        return skip("needs root, for isolation by chroot");
    }
    let buildah = Buildah::new(buildah);
    let context = tempfile::tempdir().unwrap();
    for name in ["weir", "tee.toml", "THIRD-PARTY.txt", "weir.cdx.json"] {
        fs::copy(dist.join(name), context.path().join(name)).unwrap();
    }
    fs::write(context.path().join("Containerfile"), read("container/Containerfile")).unwrap();
    let context = context.path().to_str().unwrap();
    buildah.run(&["build", &buildah.policy(), "--isolation", "chroot", "--tag", "weir", context]);
    buildah.run(&["from", &buildah.policy(), "--pull-never", "--name", "tee", "localhost/weir"]);

    // Nothing in it but what was put there.
    let image: serde_json::Value = serde_json::from_str(&buildah.run(&["inspect", "--type", "image", "weir"])).unwrap();
    let config = &image["OCIv1"]["config"];
    assert_eq!((&config["User"], &config["Entrypoint"]), (&"65532:65532".into(), &serde_json::json!(["/weir"])));

    network::on_loopback(|| {
        let sink = UdpSocket::bind("127.0.0.1:9999").unwrap();
        sink.set_read_timeout(Some(PATIENCE)).unwrap();
        let (listener, admin) = ports(&read("container/tee.toml"));
        let (listen, admin) = (format!("0.0.0.0:{listener}"), format!("127.0.0.1:{admin}"));
        let tee = ["tee", "--listen", &listen, "--to", "127.0.0.1:9999", "--admin", &admin];
        let command = buildah.command(&[&["run", "--isolation", "chroot", "tee", "--", "/weir"][..], &tee].concat());
        let mut running = Started::spawn(command);
        // The program tells nobody else when it listens.
        await_that("it to be ready", || {
            TcpStream::connect(&admin).is_ok() && http::get(&admin[..], "/readyz").status == 200
        });
        let source = UdpSocket::bind("127.0.0.1:0").unwrap();
        for payload in [&b"first"[..], b"", b"third"] {
            source.send_to(payload, ("127.0.0.1", listener)).unwrap();
            let mut bytes = [0; 100];
            let length = sink.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], payload);
        }
        running.end();
    });
}

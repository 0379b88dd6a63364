//! Writes what `weir` is made of: `notices DIRECTORY TARGET` makes `THIRD-PARTY.txt`, the licence of each crate that is
//! compiled into the binary for that target, with its text, and `weir.cdx.json`, a bill of materials (CycloneDX 1.5).
//!
//! Asks cargo alone, with the lock, so that both are of the very sources that were compiled; the same sources make the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [directory, target] = &arguments[..] else { bail!("usage: notices DIRECTORY TARGET") };
    let arguments = ["metadata", "--format-version=1", "--locked", "--filter-platform", target];
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).output().context("run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let made = Made::new(&serde_json::from_slice(&output.stdout)?, &fs::read_to_string("Cargo.lock")?)?;
    let directory = Path::new(directory);
    fs::write(directory.join("THIRD-PARTY.txt"), made.notices()?)?;
    fs::write(directory.join("weir.cdx.json"), made.bill()?)?;
    println!("{} crates of others in weir for {target}", made.others().count());
    Ok(())
}

/// The crates that the program is made of.
struct Made {
    /// By name and version.
    crates: BTreeMap<(String, String), Crate>,
}

/// One of them.
struct Crate {
    /// An SPDX expression.
    licence: String,
    repository: Option<String>,
    /// Whether it is of this workspace.
    is_own: bool,
    /// The checksum of its package; its own crates have none.
    checksum: Option<String>,
    /// Names and texts of its files about licences.
    texts: BTreeMap<String, String>,
    needs: BTreeSet<(String, String)>,
}

impl Made {
    /// Follows from `weir` what is compiled into it: neither what tests nor what builds need.
    fn new(metadata: &Value, lock: &str) -> Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let packages: BTreeMap<String, Value> =
            list(&metadata["packages"]).into_iter().filter_map(|one| Some((text(&one["id"])?, one))).collect();
        let nodes: BTreeMap<String, Value> =
            list(&metadata["resolve"]["nodes"]).into_iter().filter_map(|one| Some((text(&one["id"])?, one))).collect();
        let members: BTreeSet<String> = list(&metadata["workspace_members"]).iter().filter_map(text).collect();
        let checksums = checksums(lock)?;
        let key = |id: &str| -> Result<(String, String)> {
            let package = packages.get(id).with_context(|| format!("cargo metadata has no package {id}"))?;
            Ok((text(&package["name"]).unwrap_or_default(), text(&package["version"]).unwrap_or_default()))
        };
        let root = members.iter().find(|id| packages.get(*id).is_some_and(|package| package["name"] == "weir"));
        let mut waiting = vec![root.context("cargo metadata has no package weir")?.clone()];
        let mut crates = BTreeMap::new();
        while let Some(id) = waiting.pop() {
            let name = key(&id)?;
            if crates.contains_key(&name) {
                continue;
            }
            let mut needs = BTreeSet::new();
            for needed in list(&nodes.get(&id).context("a package that cargo has not resolved")?["deps"]) {
                let is_linked = list(&needed["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
                if let Some(package) = text(&needed["pkg"]).filter(|_| is_linked) {
                    needs.insert(key(&package)?);
                    waiting.push(package);
                }
            }
            let package = &packages[&id];
            let manifest = text(&package["manifest_path"]).context("a package without a manifest")?;
            let is_own = members.contains(&id);
            let licence = text(&package["license"]).or_else(|| text(&package["license_file"]));
            let made = Crate {
                licence: licence.with_context(|| format!("{} {} names no licence", name.0, name.1))?,
                repository: text(&package["repository"]),
                texts: if is_own { BTreeMap::new() } else { texts(Path::new(&manifest))? },
                checksum: checksums.get(&name).cloned(),
                is_own,
                needs,
            };
            crates.insert(name, made);
        }
        Ok(Self { crates })
    }

    fn others(&self) -> impl Iterator<Item = (&(String, String), &Crate)> {
        self.crates.iter().filter(|(_, one)| !one.is_own)
    }

    /// Every licence, and each of its texts once.
    fn notices(&self) -> Result<String> {
        let mut page = "weir contains the following crates. Texts of their licences follow below.\n\n".to_owned();
        let mut users: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((name, version), one) in self.others() {
            let place = one.repository.as_deref().unwrap_or("https://crates.io");
            writeln!(page, "{name} {version}: {} ({place})", one.licence)?;
            for (file, text) in &one.texts {
                users.entry(text).or_default().push(format!("{name} {version}, {file}"));
            }
        }
        for (text, users) in users {
            writeln!(page, "\n{}\n{}\n{}\n\n{}", "=".repeat(80), users.join("\n"), "-".repeat(80), text.trim())?;
        }
        Ok(page)
    }

    /// CycloneDX 1.5, https://cyclonedx.org/docs/1.5/json/
    fn bill(&self) -> Result<String> {
        let reference = |(name, version): &(String, String)| format!("pkg:cargo/{name}@{version}");
        let component = |(key, one): (&(String, String), &Crate)| {
            let hashes: Vec<Value> =
                one.checksum.iter().map(|hash| json!({"alg": "SHA-256", "content": hash})).collect();
            json!({"type": if key.0 == "weir" { "application" } else { "library" }, "name": key.0, "version": key.1,
                "bom-ref": reference(key), "purl": reference(key), "hashes": hashes,
                "licenses": [{"expression": one.licence.replace('/', " OR ")}]})
        };
        let (root, parts): (Vec<_>, Vec<_>) = self.crates.iter().partition(|(key, _)| key.0 == "weir");
        let needs = |(key, one): (&(String, String), &Crate)| json!({"ref": reference(key), "dependsOn": one.needs.iter().map(reference).collect::<Vec<_>>()});
        let bill = json!({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"component": root.into_iter().map(component).next()},
            "components": parts.into_iter().map(component).collect::<Vec<_>>(),
            "dependencies": self.crates.iter().map(needs).collect::<Vec<_>>()});
        Ok(serde_json::to_string_pretty(&bill)? + "\n")
    }
}

/// The checksums of packages, by name and version.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = lock.parse().context("read Cargo.lock")?;
    let packages = lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock has no packages")?;
    let of = |package: &toml::Value, key: &str| package.get(key)?.as_str().map(str::to_owned);
    let row = |package| Some(((of(package, "name")?, of(package, "version")?), of(package, "checksum")?));
    Ok(packages.iter().filter_map(row).collect())
}

/// The files about licences beside a manifest. A crate may have none and only say the name of its licence.
fn texts(manifest: &Path) -> Result<BTreeMap<String, String>> {
    let directory = manifest.parent().context("a manifest without a directory")?;
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_about = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"]
            .iter()
            .any(|word| name.to_uppercase().starts_with(word));
        if is_about && entry.file_type()?.is_file() {
            let text = fs::read(entry.path()).with_context(|| format!("read {}", entry.path().display()))?;
            texts.insert(name, String::from_utf8_lossy(&text).replace("\r\n", "\n"));
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Made {
        let package = |name: &str, licence: Value| {
            json!({"id": name, "name": name, "version": "1.0.0", "license": licence,
                "manifest_path": concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")})
        };
        let needs = |pkg: &str, kind: Value| json!({"pkg": pkg, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({"workspace_members": ["weir"],
            "packages": [package("weir", json!("Apache-2.0")), package("a", json!("MIT/Apache-2.0")), package("b", json!("MIT")),
                package("test", json!("MIT"))],
            "resolve": {"nodes": [
                {"id": "weir", "deps": [needs("a", Value::Null), needs("test", json!("dev"))]},
                {"id": "a", "deps": [needs("b", Value::Null)]},
                {"id": "b", "deps": []}]}});
        let lock = "[[package]]\nname = \"b\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        Made::new(&metadata, lock).unwrap()
    }

    #[test]
    fn what_is_linked_is_named_and_what_tests_is_not() {
        let made = made();
        assert_eq!(made.others().map(|(key, _)| &*key.0).collect::<Vec<_>>(), ["a", "b"]);
        let page = made.notices().unwrap();
        assert!(page.contains("a 1.0.0: MIT/Apache-2.0") && !page.contains("test 1.0.0"), "{page}");
        let bill: Value = serde_json::from_str(&made.bill().unwrap()).unwrap();
        assert_eq!(bill["metadata"]["component"]["purl"], "pkg:cargo/weir@1.0.0");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["components"][1]["hashes"][0]["content"], "abc");
        assert_eq!(bill["dependencies"][0], json!({"ref": "pkg:cargo/a@1.0.0", "dependsOn": ["pkg:cargo/b@1.0.0"]}));
    }
}

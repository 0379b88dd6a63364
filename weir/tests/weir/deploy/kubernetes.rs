//! The Kubernetes manifests: names, labels and ports agree with one another and with the program.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;
use serde_json::Value;

use super::{assert_flags_exist, path, ports, read};

/// Every object of `deploy/kubernetes`, by kind and name.
fn objects() -> BTreeMap<(String, String), Value> {
    let mut objects = BTreeMap::new();
    for file in fs::read_dir(path("kubernetes")).unwrap() {
        let name = format!("kubernetes/{}", file.unwrap().file_name().into_string().unwrap());
        for document in serde_norway::Deserializer::from_str(&read(&name)) {
            let object = Value::deserialize(document).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(object["apiVersion"].is_string() && object["kind"].is_string(), "{name}");
            let called = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let before = objects.insert((object["kind"].as_str().unwrap().to_owned(), called), object);
            assert_eq!(before, None, "{name}");
        }
    }
    objects
}

struct Manifests(BTreeMap<(String, String), Value>);

impl Manifests {
    fn of(&self, kind: &str) -> &Value {
        &self.0[&(kind.to_owned(), "weir-tee".to_owned())]
    }

    fn container(&self) -> &Value {
        let pod = &self.of("Deployment")["spec"]["template"]["spec"];
        assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
        &pod["containers"][0]
    }

    /// Port, by name, of the container.
    fn port(&self, name: &str) -> &Value {
        let ports = self.container()["ports"].as_array().unwrap();
        ports.iter().find(|port| port["name"] == name).unwrap_or_else(|| panic!("no port {name}"))
    }
}

#[test]
fn selectors_find_the_pods() {
    let all = Manifests(objects());
    let deployment = &all.of("Deployment")["spec"];
    let labels = &deployment["template"]["metadata"]["labels"];
    assert!(labels["app.kubernetes.io/name"].is_string(), "{labels}");
    assert_eq!(&deployment["selector"]["matchLabels"], labels);
    assert_eq!(&all.of("Service")["spec"]["selector"], labels);
    assert_eq!(&all.of("PodDisruptionBudget")["spec"]["selector"]["matchLabels"], labels);
    let spread = &deployment["template"]["spec"]["topologySpreadConstraints"][0];
    assert_eq!(&spread["labelSelector"]["matchLabels"], labels);

    let autoscaler = &all.of("HorizontalPodAutoscaler")["spec"];
    assert_eq!(autoscaler["scaleTargetRef"]["kind"], "Deployment");
    assert_eq!(autoscaler["scaleTargetRef"]["name"], all.of("Deployment")["metadata"]["name"]);
    assert_eq!(autoscaler["scaleTargetRef"]["apiVersion"], all.of("Deployment")["apiVersion"]);
    // Two set the number of replicas otherwise; and a budget of one needs a second.
    assert_eq!(deployment["replicas"], Value::Null);
    assert!(autoscaler["minReplicas"].as_u64() >= Some(2));
}

#[test]
fn ports_are_those_of_the_configuration() {
    let all = Manifests(objects());
    let config = all.of("ConfigMap")["data"]["tee.toml"].as_str().unwrap();
    let (listener, admin) = ports(config);
    assert_eq!(
        (&all.port("syslog")["containerPort"], &all.port("syslog")["protocol"]),
        (&listener.into(), &"UDP".into())
    );
    assert_eq!((&all.port("admin")["containerPort"], &all.port("admin")["protocol"]), (&admin.into(), &"TCP".into()));
    let service = &all.of("Service")["spec"];
    assert_eq!(
        (&service["ports"][0]["targetPort"], &service["ports"][0]["protocol"]),
        (&"syslog".into(), &"UDP".into())
    );
    assert_eq!(service["externalTrafficPolicy"], "Local");
    let annotations = &all.of("Deployment")["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["prometheus.io/port"], admin.to_string());
    // Without a capability there is no port below 1024.
    assert!(listener >= 1024);

    let collectors = &all.0[&("Service".to_owned(), "collectors".to_owned())]["spec"];
    assert_eq!(collectors["clusterIP"], "None");
    let fed = format!("to = \"collectors:{}\"\naddresses = \"all\"", collectors["ports"][0]["port"]);
    assert!(config.contains(&fed), "{config}");
}

#[test]
fn the_pod_runs_the_program_without_privileges() {
    let all = Manifests(objects());
    let container = all.container();
    let arguments: Vec<&str> =
        container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_flags_exist(&arguments);
    assert_eq!(container["image"], concat!("weir:", env!("CARGO_PKG_VERSION")));
    for (probe, path) in [("startupProbe", "/readyz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")] {
        assert_eq!(
            (&container[probe]["httpGet"]["path"], &container[probe]["httpGet"]["port"]),
            (&path.into(), &"admin".into())
        );
    }

    let pod = &all.of("Deployment")["spec"]["template"]["spec"];
    let mount = &container["volumeMounts"][0];
    let config = format!("{}/tee.toml", mount["mountPath"].as_str().unwrap());
    assert_eq!(arguments.last(), Some(&&*config));
    let volume = pod["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == mount["name"]).unwrap();
    assert_eq!(volume["configMap"]["name"], all.of("ConfigMap")["metadata"]["name"]);

    assert_eq!(
        (&pod["securityContext"]["runAsNonRoot"], &pod["securityContext"]["runAsUser"]),
        (&true.into(), &65532.into())
    );
    let security = &container["securityContext"];
    assert_eq!(
        (&security["readOnlyRootFilesystem"], &security["allowPrivilegeEscalation"]),
        (&true.into(), &false.into())
    );
    assert_eq!(security["capabilities"]["drop"], serde_json::json!(["ALL"]));
    assert!(container["resources"]["requests"]["cpu"].is_string());
    assert_eq!(container["resources"]["limits"]["cpu"], Value::Null);
}

#[test]
fn kustomize_finds_every_file() {
    let listed: Value = serde_norway::from_str(&read("kubernetes/kustomization.yaml")).unwrap();
    let mut listed: Vec<&str> =
        listed["resources"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let files = fs::read_dir(path("kubernetes")).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = files.filter(|name| name != "kustomization.yaml").collect();
    listed.sort_unstable();
    files.sort_unstable();
    assert_eq!(listed, files);
}

#!/bin/sh
# Fetches real peers for tests and benchmarks from Debian without installing them: system loggers exclude one another and
# start services. Packages and what this machine lacks of their libraries are unpacked below target/peers/root, and
# target/peers/bin has a command for each. Needs no root: apt keeps its lists there, too. The machine stays as it was.
# Arguments name more peers, as in the list below.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p target/peers
# Commands name the place as it is, whoever links to it.
place=$(cd target/peers && pwd -P)

# command:package:path in the package
peers='rsyslogd:rsyslog:usr/sbin/rsyslogd
syslog-ng:syslog-ng-core:usr/sbin/syslog-ng
loggen:syslog-ng-core:usr/bin/loggen
nfcapd:nfdump:usr/bin/nfcapd
nfdump:nfdump:usr/bin/nfdump
softflowd:softflowd:usr/sbin/softflowd
promtool:prometheus:usr/bin/promtool
prometheus:prometheus:usr/bin/prometheus
ovsdb-tool:openvswitch-common:usr/bin/ovsdb-tool
ovsdb-server:openvswitch-common:usr/sbin/ovsdb-server
ovs-vsctl:openvswitch-switch:usr/bin/ovs-vsctl
ovs-vswitchd:openvswitch-switch:usr/lib/openvswitch-switch/ovs-vswitchd
pmacctd:pmacct:usr/sbin/pmacctd
sfacctd:pmacct:usr/sbin/sfacctd
influxd:influxdb:usr/bin/influxd
iperf:iperf:usr/bin/iperf
gobgpd:gobgpd:usr/bin/gobgpd
gobgp:gobgpd:usr/bin/gobgp
bird:bird2:usr/sbin/bird
birdc:bird2:usr/sbin/birdc
zebra:frr:usr/lib/frr/zebra
bgpd:frr:usr/lib/frr/bgpd
staticd:frr:usr/lib/frr/staticd
vtysh:frr:usr/bin/vtysh
tshark:tshark:usr/bin/tshark'
for more in "$@"; do peers=$(printf '%s\n%s' "$peers" "$more"); done

# What Debian has no new version of, where Go is at hand: command:program:module@version
built='gobgpd4:gobgpd:github.com/osrg/gobgp/v4/cmd/gobgpd@v4.8.0'
echo "$built" | while IFS=: read -r command program module; do
    [ ! -x "$place/bin/$command" ] || continue
    go=$(PATH=$PATH:/usr/local/go/bin command -v go) || {
        echo "peers: no Go; tests that need this are skipped: $command"; continue; }
    mkdir -p "$place/bin" "$place/go"
    if GOBIN=$place/go "$go" install "$module"; then mv "$place/go/$program" "$place/bin/$command"
    else echo "peers: no access to Go's modules; tests that need this are skipped: $command"; fi
done

missing=$(echo "$peers" | while IFS=: read -r command package path; do
    PATH=$place/bin:$PATH:/usr/sbin command -v "$command" >/dev/null || echo "$package"; done | sort -u)
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "peers: these are fetched on Debian only; tests that need them are skipped:" $missing
    exit 0
fi

trap 'rm -rf "$place/apt"' EXIT
mkdir -p "$place/apt/lists/partial" "$place/apt/cache/archives/partial" "$place/root" "$place/bin"
apt() {
    apt-get -qq -o Dir::State::lists="$place/apt/lists" -o Dir::Cache="$place/apt/cache" -o APT::Sandbox::User= "$@"
}
# What installations would add; what they would remove (another system logger) does not matter here.
fetch() {
    apt update || return 1
    for package in $missing; do
        needed=$(apt -s --no-install-recommends install "$package" | awk '/^Inst/ { print $2 }')
        (cd "$place/apt" && apt download $needed) || return 1
    done
}
if ! fetch; then
    echo "peers: no access to Debian's packages; tests that need these are skipped:" $missing
    exit 0
fi
for archive in "$place"/apt/*.deb; do dpkg-deb -x "$archive" "$place/root"; done

# Programs find their own libraries first; the loggers must be told where their modules are, too.
libraries=$(find "$place/root" -name '*.so*' -printf '%h\n' | sort -u)
modules=$(find "$place/root" -name imudp.so -printf '%h\n')
echo "$peers" | while IFS=: read -r command package path; do
    [ -x "$place/root/$path" ] || continue
    arguments=
    [ "$command" != rsyslogd ] || arguments="-M '$modules'"
    cat >"$place/bin/$command" <<END
#!/bin/sh
export LD_LIBRARY_PATH='$(echo "$libraries" | paste -sd:)' SYSLOGNG_PREFIX='$place/root/usr'
exec '$place/root/$path' $arguments "\$@"
END
    chmod +x "$place/bin/$command"
done

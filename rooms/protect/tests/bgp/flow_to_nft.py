# Makes rules of nftables of what ExaBGP 5.0 says in JSON, as far as the tests need it. Argument: where nft is.
import json, os, re, select, subprocess, sys

def nft(text):
    return subprocess.run([sys.argv[1], '-e', '-a', '-f', '-'], input=text, capture_output=True, text=True, check=True).stdout

nft('table inet flowspec { chain forward { type filter hook forward priority -10; policy accept; }; }\n')
open('@DIR@/ready', 'w')

def numbers(values):
    ranges = [re.fullmatch(r'>=?(\d+)&<=?(\d+)', value) for value in values]
    return '{ %s }' % ', '.join('-'.join(r.groups()) if r else v.lstrip('=') for r, v in zip(ranges, values))

def rule(flow):
    is_v6 = 'destination-ipv6' in flow
    parts = []
    for name, values in flow.items():
        if name.startswith('destination-ip'):
            parts.append('%s daddr %s' % ('ip6' if is_v6 else 'ip', '/'.join(values[0].split('/')[:2])))
        elif name.startswith('source-ip'):
            parts.append('%s saddr %s' % ('ip6' if is_v6 else 'ip', '/'.join(values[0].split('/')[:2])))
        elif name in ('protocol', 'next-header'):
            parts.append('meta l4proto ' + numbers(['17' if v.lstrip('=') == 'udp' else v for v in values]))
        elif name in ('source-port', 'destination-port'):
            parts.append('th %sport ' % name[0] + numbers(values))
        elif name == 'packet-length':
            parts.append('meta length ' + numbers(values))
        elif name != 'string':
            raise ValueError('no word for ' + name)
    return ' '.join(parts) + ' counter drop'

handles = {}

def take(message):
    update = message.get('neighbor', {}).get('message', {}).get('update', {})
    for family, hops in update.get('announce', {}).items():
        for flows in hops.values() if 'flow' in family else []:
            for flow in flows:
                said = nft('add rule inet flowspec forward %s\n' % rule(flow))
                handles[flow['string']] = re.search(r'handle (\d+)', said)[1]
    for family, flows in update.get('withdraw', {}).items():
        if 'flow' in family:
            for flow in flows if isinstance(flows, list) else sum(flows.values(), []):
                nft('delete rule inet flowspec forward handle %s\n' % handles.pop(flow['string']))

# readline would wait for more than a line.
unread = b''
while True:
    select.select([0], [], [])
    read = os.read(0, 65536)
    if not read:
        break
    *lines, unread = (unread + read).split(b'\n')
    for line in lines:
        try:
            take(json.loads(line))
        except Exception as error:
            print(repr(error), line, file=sys.stderr, flush=True)

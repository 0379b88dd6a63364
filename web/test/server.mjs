// A `weir sflow serve` of a test.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

export class Server {
  /** Starts it; port 0 lets the kernel choose. A configuration says all of it by itself. */
  static async start({ http = '127.0.0.1:0', listen = '127.0.0.1:0', flags = [], config } = {}) {
    const server = new Server();
    const weir = process.env.WEIR ?? '../target/debug/weir';
    const told = config ? ['-c', config] : ['--http', http, '--listen', listen];
    server.child = spawn(weir, ['sflow', 'serve', ...told, ...flags], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    process.on('exit', () => server.child.kill('SIGKILL'));
    server.ended = new Promise(ended => server.child.once('exit', ended));
    await new Promise((ready, failed) => {
      server.child.once('error', failed);
      server.ended.then(() => failed(new Error('weir has ended before it was ready')));
      createInterface({ input: server.child.stderr }).on('line', line => {
        const listener = /listener .*?: ([^ ,]+),/.exec(line);
        if (listener) server.udp = listener[1];
        const address = /ready: .*http:\/\/([^/]+)\//.exec(line);
        if (address) {
          server.http = address[1];
          ready();
        }
      });
    });
    return server;
  }

  async get(path) {
    const answer = await fetch(`http://${this.http}${path}`);
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  async put(path, body) {
    const answer = await fetch(`http://${this.http}${path}`, { method: 'PUT', body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  }

  async end(signal = 'SIGTERM') {
    this.child.kill(signal);
    await this.ended;
  }
}

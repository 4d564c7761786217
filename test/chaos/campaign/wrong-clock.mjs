/**
 * Preloaded into a worker process whose clock is to be wrong: its main thread's and its heartbeat thread's alike. The
 * variable holds by how much, and how long after the start of the machine it begins. Plain JavaScript, since threads start
 * without a loader.
 */
const { offMs, fromUptimeMs } = JSON.parse(process.env.CAMPAIGN_CLOCK ?? '{"offMs":0,"fromUptimeMs":0}');
const RightDate = globalThis.Date;
const uptimeMs = () => Number(process.hrtime.bigint() / 1_000_000n);
const rightNow = RightDate.now;
const wrongNow = () => rightNow.call(RightDate) + (uptimeMs() >= fromUptimeMs ? offMs : 0);

globalThis.Date = new Proxy(RightDate, {
  construct: (target, given, made) => Reflect.construct(target, given.length === 0 ? [wrongNow()] : given, made),
  apply: () => new RightDate(wrongNow()).toString(),
  get: (target, name) => (name === 'now' ? wrongNow : Reflect.get(target, name)),
});

/** What a worker's process keeps of its registrations: one may be declared dead while claims are being asked for. */
import { describe, expect, it } from 'vitest';
import { Post, type PostParts } from '../../src/engine/post.js';
import type { Heart } from '../../src/ports.js';

class FakeHeart implements Heart {
  readonly held = new Set<string>();
  die = () => {};
  hold = (token: string) => void this.held.add(token);
  drop = (token: string) => void this.held.delete(token);
  claimed() {}
  isConfirmed = () => true;
  onAbort() {}
  onDeclaredDead(listener: () => void) {
    this.die = listener;
  }
  async stop() {}
}

function openPost() {
  const parts = { agents: new Map(), clock: { monotonicMs: () => 1_000 } };
  const post = new Post(parts as unknown as PostParts);
  const hearts = [new FakeHeart(), new FakeHeart()] as const;
  const anew: string[] = [];
  const take = (index: 0 | 1) => post.takeHeart(`w${index}`, hearts[index], () => anew.push(`w${index}`));
  return { post, hearts, anew, take };
}

describe('a process that was declared dead', () => {
  it('claims under its new registration only what the beats of that one list', () => {
    const { post, hearts, take } = openPost();
    take(0);
    post.openCall('t');
    take(1);
    expect(post.claimAs('t')).toBe('w1');
    expect([...hearts[1].held]).toEqual(['t']);
    expect([...hearts[0].held]).toEqual([]);
    post.closeCall('t');
    expect([...hearts[1].held]).toEqual([]);
  });

  it('loses what it claimed, and not what it is still asking for', () => {
    const { post, hearts, anew, take } = openPost();
    take(0);
    const claimed = post.openCall('claimed');
    const asked = post.openCall('asked');
    post.claimed('claimed');
    hearts[0].die();
    expect(anew).toEqual(['w0']);
    expect([claimed.cause, asked.cause]).toEqual(['lost', null]);
  });

  it('keeps its new registration when it hears late of the death of the old one', () => {
    const { post, hearts, anew, take } = openPost();
    take(0);
    take(1);
    const call = post.openCall('t');
    post.claimed('t');
    post.registerAnew('w0');
    hearts[0].die();
    expect(anew).toEqual([]);
    expect(call.cause).toBeNull();
  });
});

import { expect, it } from 'vitest';
import { nearest } from '../../src/core/nearest.js';
import { replaceWords, type Words, wordNames, wordsOf } from '../../src/core/words.js';

const en = wordsOf('en');
const zh = wordsOf('zh');
const issues = [{ path: 'a', expected: 'string', got: 'nothing' }];

/** Each of Pawl's words once, in one language. */
function everything(words: Words): Record<keyof Words, string> {
  return {
    unknownTool: words.unknownTool('serch', ['search', 'mail']),
    invalidArguments: words.invalidArguments('search', issues),
    unparseableArguments: words.unparseableArguments('search', 'P'),
    toolThrew: words.toolThrew('search', 'boom', 17),
    toolTimedOut: words.toolTimedOut('search', 30_000, 17),
    permissionDenied: words.permissionDenied('search', 'not yours'),
    disabled: words.disabled('search'),
    outOfOrder: words.outOfOrder('search'),
    closed: words.closed('search'),
    objectedTo: words.objectedTo('search', 'boom'),
    maxCalls: words.maxCalls('search', 17),
    notStarted: words.notStarted('search', 'down'),
    repeats: words.repeats({ rung: 'tell', period: 1, turns: 17, sameResults: true }),
    withheld: words.withheld('search'),
    notExecuted: words.notExecuted('max_steps'),
    unknownFate: words.unknownFate('search'),
    resolvedFailed: words.resolvedFailed('search', 'no'),
    unstorable: words.unstorable('search'),
    emptyResult: words.emptyResult(),
    noResult: words.noResult(),
    lastTurn: words.lastTurn('deadline'),
    digest: words.digest('search'),
    digestLine: words.digestLine({ call: 'search', step: 30, chars: 17, begins: 'boom' }),
    summarise: words.summarise(17),
    summary: words.summary('boom', ['search']),
    makePlan: words.makePlan({ chars: 17, tools: ['search: boom'] }),
    plan: words.plan('boom'),
    updatePlan: words.updatePlan(),
    planReplaced: words.planReplaced(),
    planUnusable: words.planUnusable(17),
    reflect: words.reflect('boom'),
    remember: words.remember(),
    recall: words.recall(),
    facts: words.facts(['search: boom']),
    turnsLeft: words.turnsLeft(17, 'finish'),
    objection: words.objection(issues),
    answerNotJson: words.answerNotJson('P'),
    answerRefused: words.answerRefused('boom'),
    unfoundedNumbers: words.unfoundedNumbers(['17', '30']),
    cut: words.cut(17),
    cutOutput: words.cutOutput({ chars: 17, step: 3, offset: 30 }),
    readOutput: words.readOutput(),
    outputPage: words.outputPage({ step: 17, name: 'search', from: 0, to: 30, total: 90 }),
    noOutput: words.noOutput(17),
    noPage: words.noPage({ step: 17, offset: 30, total: 20 }),
    jsonCalls: words.jsonCalls(['search'], '17'),
    jsonResult: words.jsonResult('search', 'boom'),
    jsonUnreadable: words.jsonUnreadable('boom'),
    turnsLeftOut: words.turnsLeftOut(),
  };
}

it('says everything in both languages, with the names and numbers it was given', () => {
  const [english, chinese] = [everything(en), everything(zh)];
  for (const [key, said] of Object.entries(chinese)) {
    expect(said, key).toMatch(/[\u4e00-\u9fff]/);
    expect(english[key as keyof Words], key).not.toMatch(/[\u4e00-\u9fff]/);
    for (const given of ['search', 'boom', 'not yours', 'down', '17', '30']) {
      expect(said.includes(given), key).toBe(english[key as keyof Words].includes(given));
    }
  }
});

it('names the tools there are to a model that asked for another', () => {
  expect(en.unknownTool('x'.repeat(500), ['search', 'mail'])).toMatch(
    /^There is no tool "x{64}…"\. The tools are: search, mail\.$/,
  );
  expect(en.unknownTool('x', [])).toContain('answer in text');
});

it('lists ten issues and counts the rest', () => {
  const many = Array.from({ length: 25 }, (_, i) => ({ path: `f${i}`, expected: 'string', got: 'nothing' }));
  const said = en.invalidArguments('t', many);
  expect(said).toContain('f9');
  expect(said).not.toContain('f10');
  expect(said).toContain('+15');
});

it('suggests the nearest name, and none that is far', () => {
  const names = ['maxSteps', 'maxTurns', 'deadlineMs'];
  expect(nearest('maxstep', names)).toBe('maxSteps');
  expect(nearest('maxTunrs', names)).toBe('maxTurns');
  expect(nearest('temperature', names)).toBeNull();
  expect(nearest('', names)).toBeNull();
});

it('lets a user say any of it otherwise, and says its own where the other says nothing', () => {
  expect([...wordNames()].sort()).toEqual(Object.keys(everything(en)).sort());
  const words = replaceWords(zh, {
    closed: (name) => `${name} is closed\0`,
    emptyResult: () => ' ',
    noResult: () => {
      throw new Error('no');
    },
    cut: () => 7 as unknown as string,
  });
  expect(words.closed('search')).toBe('search is closed\ufffd');
  const { closed: _, ...others } = everything(words);
  const { closed: __, ...own } = everything(zh);
  expect(others).toEqual(own);
});

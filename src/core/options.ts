/**
 * Checks of options that users write: defineTool, defineAgent and defineConfig share them. Each refusal is a PawlError that
 * names the definition, the field, the value given and the fix. Nothing is accepted and ignored.
 */
import { PawlError } from './errors.js';
import { describeValue } from './issues.js';
import { didYouMean } from './nearest.js';

/** A definition under check; `of` names it in every message: `tool "charge"`. */
export class Options {
  constructor(
    readonly of: string,
    readonly given: Readonly<Record<string, unknown>>,
  ) {}

  static of(what: string, given: unknown): Options {
    if (typeof given !== 'object' || given === null || Array.isArray(given)) {
      throw new PawlError('config_invalid', `${what} takes an object of options, not ${describeValue(given)}`);
    }
    return new Options(what, given as Record<string, unknown>);
  }

  /** The options of one field that is itself an object; empty when left out. */
  nested(field: string): Options {
    const value = this.given[field];
    if (value === undefined) return new Options(`${this.of}: ${field}`, {});
    if (typeof value !== 'object' || value === null || Array.isArray(value)) this.refuse(field, 'an object of options');
    return new Options(`${this.of}: ${field}`, value as Record<string, unknown>);
  }

  refuse(field: string, expected: string): never {
    const got = describeValue(this.given[field]);
    throw new PawlError('config_invalid', `${this.of}: ${field} must be ${expected}, not ${got}`);
  }

  fail(message: string): never {
    throw new PawlError('config_invalid', `${this.of}: ${message}`);
  }

  knowsOnly(fields: readonly string[]): void {
    for (const field of Object.keys(this.given)) {
      if (!fields.includes(field)) {
        this.fail(`there is no option ${field}${didYouMean(field, fields)}. The options are: ${fields.join(', ')}`);
      }
    }
  }

  /** Refuses an option of the documented surface that this version cannot act on, unless it has its neutral value. */
  notBuilt(field: string, neutral: (value: unknown) => boolean = () => false): void {
    const value = this.given[field];
    if (value === undefined || neutral(value)) return;
    throw new PawlError('not_built', `${this.of}: ${field} is not built in this version; leave it out`);
  }

  integer(field: string, fallback: number, min: number, max: number): number {
    return this.optionalInteger(field, min, max) ?? fallback;
  }

  optionalInteger(field: string, min: number, max: number): number | null {
    const value = this.given[field];
    if (value === undefined || value === null) return null;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
      this.refuse(field, `a whole number from ${min} to ${max}`);
    }
    return value;
  }

  optionalNumber(field: string, min: number, max: number): number | null {
    const value = this.given[field];
    if (value === undefined || value === null) return null;
    if (typeof value !== 'number' || !(value >= min && value <= max)) {
      this.refuse(field, `a number from ${min} to ${max}`);
    }
    return value;
  }

  oneOf<const T extends string>(field: string, values: readonly T[], fallback: T): T {
    const value = this.given[field];
    if (value === undefined) return fallback;
    const found = values.find((known) => known === value);
    if (found === undefined) this.refuse(field, `one of ${values.map((known) => `'${known}'`).join(', ')}`);
    return found;
  }

  boolean(field: string, fallback: boolean): boolean {
    const value = this.given[field];
    if (value === undefined) return fallback;
    if (typeof value !== 'boolean') this.refuse(field, 'true or false');
    return value;
  }

  /** Text that is there and not blank, made well-formed. */
  text(field: string, maxChars: number): string {
    const value = this.given[field];
    if (typeof value !== 'string' || value.trim() === '') this.refuse(field, 'text that is not empty');
    if (value.length > maxChars) {
      this.fail(`${field} has ${value.length} characters; at most ${maxChars} are allowed`);
    }
    if (value.includes('\0') || !value.isWellFormed()) this.fail(`${field} holds U+0000 or half of a character`);
    return value;
  }

  /** A name that models and providers accept: the rule of every OpenAI-compatible provider for function names. */
  name(): string {
    const value = this.given.name;
    if (typeof value !== 'string' || !/^[a-zA-Z0-9_-]{1,64}$/.test(value)) {
      this.refuse('name', '1 to 64 letters, digits, _ or -');
    }
    if (value in Object.prototype || value === 'prototype') {
      this.fail(`name must not be ${value}, which every JavaScript object has; choose another`);
    }
    return value;
  }
}

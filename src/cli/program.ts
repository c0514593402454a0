/** Builds commander's tree from the descriptions. Nothing is printed and nobody exits here: that is `main`'s. */
import { Argument, Command, Option } from 'commander';
import type { CommandDescription, OptionDescription } from './command.ts';
import { commands, groups } from './commands/all.ts';
import type { Context } from './context.ts';
import { Options } from './options.ts';

/** @param onStatus told the exit status when a command has run */
export function buildProgram(context: Context, onStatus: (status: number) => void): Command {
  const program = new Command('sallyport')
    .description('Sandboxes for code agents: a smaller computer, and one guarded way out.')
    .enablePositionalOptions()
    .configureOutput({
      writeOut: (text) => context.stdout.write(text),
      writeErr: (text) => context.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, 'sallyport: ')),
    })
    .exitOverride();
  const parents = new Map<string, Command>();
  for (const description of commands)
    addCommand(parentOf(program, parents, description.name), description, context, onStatus);
  return program;
}

function parentOf(program: Command, parents: Map<string, Command>, name: string): Command {
  const [group = ''] = name.split(' ');
  if (group === name) return program;
  const known = parents.get(group);
  if (known !== undefined) return known;
  const parent = program
    .command(group)
    .description(groups[group] ?? '')
    .copyInheritedSettings(program);
  parents.set(group, parent);
  return parent;
}

function addCommand(
  parent: Command,
  description: CommandDescription,
  context: Context,
  onStatus: (status: number) => void,
): void {
  const name = description.name.split(' ').at(-1) ?? '';
  const command = parent.command(name, { hidden: description.hidden === true }).description(description.summary);
  for (const { name, summary, choices } of description.arguments ?? []) {
    const argument = new Argument(name, summary);
    command.addArgument(choices === undefined ? argument : argument.choices(choices));
  }
  for (const option of description.options ?? []) command.addOption(optionOf(option));
  if (description.passThrough === true) command.passThroughOptions();
  const examples = description.examples?.map((example) => `  ${example}`) ?? [];
  if (examples.length > 0) command.addHelpText('after', `\nExamples:\n${examples.join('\n')}`);
  command.action(async () => {
    const { run } = await description.load();
    const call = { arguments: command.args, options: new Options(command.opts()), commands };
    onStatus((await run(context, call)) ?? 0);
  });
}

function optionOf({ flags, summary, repeat, choices }: OptionDescription): Option {
  const option = new Option(flags, summary);
  if (choices !== undefined) option.choices(choices);
  if (repeat === true) option.argParser((value: string, earlier: string[] = []) => [...earlier, value]);
  return option;
}

"""An agent of another library: Stable-Baselines3's PPO with masks, on the jobs of a trace.

Install the libraries first: pip install 'shunter[rl]' sb3-contrib
"""

import sys

from sb3_contrib import MaskablePPO

from shunter.learning.engine import ground_for
from shunter.learning.environment import SchedulingEnv
from shunter.learning.training import parts_of
from shunter.setup import set_up


def main(steps: int) -> None:
    """Train on early windows, and compare with the base policy on later ones."""
    setup = set_up("synthetic:jobs=2000,gpus=16,load=1.3", "2x8")
    ground = ground_for(setup, "oracle", 64)
    early, _, late = parts_of(ground)
    agent = MaskablePPO(
        "MlpPolicy", SchedulingEnv(ground, visible=32, windows=early), n_steps=256, seed=0, device="cpu"
    )
    agent.learn(steps)
    env, rewards = SchedulingEnv(ground, visible=32), []
    for first in late[:: len(late) // 8]:
        seen, over = env.reset(options={"first": int(first)})[0], False
        while not over:
            action, _ = agent.predict(seen, action_masks=env.action_masks(), deterministic=True)
            seen, reward, over, _, _ = env.step(action)
        rewards.append(reward)
    print(f"gain on saf with EASY, on windows not seen: {sum(rewards) / len(rewards):+.1%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 512)  # for an agent that has learned something: 20000

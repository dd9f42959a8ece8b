"""Checked by `test_types.py`, not run: agents, in the style of CleanRL and of PyTorch's examples."""

from collections import deque
from collections.abc import Iterable

import numpy as np

import numod as torch
import numod.nn.functional as F
from numod import nn, optim
from numod.distributions import Categorical, Normal
from numod.distributions.categorical import Categorical as SameCategorical


def layer_init(layer: nn.Linear, std: float = np.sqrt(2), bias_const: float = 0.0) -> nn.Linear:
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self, observations: int, actions: int) -> None:
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(observations, 64)), nn.Tanh(), layer_init(nn.Linear(64, 1), std=1.0)
        )
        self.actor = nn.Sequential(layer_init(nn.Linear(observations, 64)), nn.Tanh(), nn.Linear(64, actions))

    def get_value(self, x: torch.Tensor) -> torch.Tensor:
        return self.critic(x)

    def get_action_and_value(
        self, x: torch.Tensor, action: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        probs = SameCategorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


class Actor(nn.Module):
    action_scale: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.mean, self.log_std = nn.Linear(3, 32), nn.Linear(32, 1), nn.Linear(32, 1)
        self.register_buffer("action_scale", torch.tensor(2.0, dtype=torch.float32))

    def get_action(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = F.relu(self.fc(x))
        normal = Normal(self.mean(x), self.log_std(x).clamp(-5, 2).exp())
        x_t = normal.rsample()
        y_t = torch.tanh(x_t)
        log_prob = normal.log_prob(x_t) - torch.log(self.action_scale * (1 - y_t.pow(2)) + 1e-6)
        return y_t * self.action_scale, log_prob.sum(1, keepdim=True)


def ppo(agent: Agent, steps: int, envs: int, observation: np.ndarray) -> float:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    optimizer = optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    obs = torch.zeros((steps, envs, 4)).to(device)
    rewards, values, dones, logprobs = (torch.zeros((steps, envs), device=device) for _ in range(4))
    actions = torch.zeros((steps, envs)).to(device)
    next_obs, next_done = torch.Tensor(observation).to(device), torch.zeros(envs).to(device)
    for step in range(steps):
        obs[step] = next_obs
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
            values[step] = value.flatten()
        actions[step], logprobs[step] = action, logprob
        rewards[step] = torch.tensor(action.cpu().numpy()).to(device).view(-1)
    with torch.no_grad():
        advantages = torch.zeros_like(rewards).to(device)
        last = 0.0 * next_done
        for t in reversed(range(steps)):
            delta = rewards[t] + 0.99 * values[t] * (1.0 - dones[t]) - values[t]
            advantages[t] = last = delta + 0.99 * 0.95 * last
    b_obs, b_advantages = obs.reshape((-1, 4)), advantages.reshape(-1)
    b_inds = np.arange(steps * envs)
    clipfracs: list[float] = []
    for start in range(0, steps * envs, 32):
        mb_inds = b_inds[start : start + 32]
        _, newlogprob, entropy, newvalue = agent.get_action_and_value(
            b_obs[mb_inds], actions.reshape(-1).long()[mb_inds]
        )
        ratio = (newlogprob - logprobs.reshape(-1)[mb_inds]).exp()
        with torch.no_grad():
            clipfracs += [((ratio - 1.0).abs() > 0.2).float().mean().item()]
        mb_advantages = b_advantages[mb_inds]
        mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
        pg_loss = torch.max(-mb_advantages * ratio, -mb_advantages * torch.clamp(ratio, 0.8, 1.2)).mean()
        loss = pg_loss - 0.01 * entropy.mean() + 0.5 * (newvalue.view(-1) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 0.5 * optimizer.param_groups[0]["lr"]
    variance = np.var(values.reshape(-1).cpu().numpy())
    return float(variance) + float(np.mean(clipfracs))


def dqn(q_network: nn.Module, target: nn.Module, batch: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> int:
    observations, chosen, rewards = batch
    target.load_state_dict(q_network.state_dict())
    with torch.no_grad():
        target_max, _ = target(observations).max(dim=1)
        td_target = rewards.flatten() + 0.99 * target_max
    old_val = q_network(observations).gather(1, chosen).squeeze()
    F.mse_loss(td_target, old_val).backward()
    for target_param, q_param in zip(target.parameters(), q_network.parameters()):
        target_param.data.copy_(0.005 * q_param.data + (1.0 - 0.005) * target_param.data)
    values: torch.Tensor = observations.max(1).values
    greedy = torch.argmax(q_network(torch.Tensor(np.zeros(4))), dim=-1)
    return int(greedy.item()) + values.numel()


def reinforce(policy: nn.Module, rewards: Iterable[float], saved: list[torch.Tensor]) -> float:
    returns: deque[float] = deque()
    R = 0.0
    for reward in rewards:
        R = reward + 0.99 * R
        returns.appendleft(R)
    targets = torch.tensor(list(returns))
    targets = (targets - targets.mean()) / (targets.std() + np.finfo(np.float32).eps.item())
    losses = [-log_prob * target for log_prob, target in zip(saved, targets)]
    m = Categorical(policy(torch.from_numpy(np.zeros(4)).float().unsqueeze(0)))
    losses.append(m.log_prob(m.sample()))
    torch.cat(losses).sum().backward()
    return torch.where(targets > 0, 1, 0).sum().item() + torch.pow(2, targets).sum().item()

"""For graphs from `langchain.agents.create_agent`: the policy and the skill come from the episode's context.

    agent = create_agent(
        PolicyFromContext(), tools=[click], context_schema=AgentContext, middleware=[CoevoMiddleware()]
    )

Needs the package `langchain`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse, hook_config
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.outputs import ChatResult
from langgraph.runtime import Runtime

from coevo.agent import AgentContext
from coevo.errors import AgentError


class CoevoMiddleware(AgentMiddleware[AgentState[Any], AgentContext]):
    """Makes every model call go to `context.policy`, puts `context.skill` at the end of the system message, and ends
    the agent as soon as the episode is over, so that no call is spent after the last action.

    Without an `AgentContext` (the agent is run by itself, outside coevo) it changes nothing.
    """

    def wrap_model_call(
        self,
        request: ModelRequest[AgentContext],
        handler: Callable[[ModelRequest[AgentContext]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        return handler(_with_context(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[AgentContext],
        handler: Callable[[ModelRequest[AgentContext]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        return await handler(_with_context(request))

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: AgentState[Any], runtime: Runtime[AgentContext]) -> dict[str, Any] | None:
        context = runtime.context
        return {"jump_to": "end"} if isinstance(context, AgentContext) and context.env.over else None


class PolicyFromContext(BaseChatModel):
    """Stands where `create_agent` wants a model; `CoevoMiddleware` replaces it by the policy of the episode."""

    @property
    def _llm_type(self) -> str:
        return "coevo-policy-from-context"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise AgentError(
            "no policy was put in the place of PolicyFromContext",
            hint="add middleware=[CoevoMiddleware()] and context_schema=AgentContext, and run it as an episode",
        )


def _with_context(request: ModelRequest[AgentContext]) -> ModelRequest[AgentContext]:
    context = request.runtime.context if request.runtime is not None else None
    if not isinstance(context, AgentContext):
        return request
    if not context.skill:
        return request.override(model=context.policy)
    own = request.system_prompt
    system = f"{own}\n\n{context.skill}" if own else context.skill
    return request.override(model=context.policy, system_message=SystemMessage(system))
